# A small image: LightGBM and XGBoost without GPU libraries.
#   docker build --tag ltr-harness .
#   docker run --rm --volume "$PWD:/data" ltr-harness run my-first.yaml
FROM python:3.13-slim

# LightGBM uses the system's OpenMP
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*

WORKDIR /source
COPY pyproject.toml README.md LICENSE requirements-cpu.txt ./
COPY ltr_harness ltr_harness
RUN pip install --no-cache-dir -r requirements-cpu.txt && pip install --no-cache-dir --no-deps .

# can be written by whoever runs it, also with --user
ENV NUMBA_CACHE_DIR=/tmp/numba XDG_CACHE_HOME=/tmp/cache
WORKDIR /data
ENTRYPOINT ["ltr-harness"]
