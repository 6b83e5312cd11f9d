"""From runs, files and folders to the systems of a comparison."""
