"use strict";
(() => {
  const all = (query, inside = document) => [...inside.querySelectorAll(query)];
  const root = document.documentElement;

  // Light and dark: the page's own choice wins over the system's.
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.dataset.theme || (systemDark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
  });

  // On paper stands what is open; all of it on request.
  document.getElementById("print-all").addEventListener("click", () => {
    root.dataset.print = "all";
    window.print();
  });
  window.addEventListener("afterprint", () => { delete root.dataset.print; });

  // Tables: a click on a heading sorts; missing values stay at the end.
  const order = (a, b) => {
    const x = Number(a), y = Number(b);
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en", { numeric: true }) : x - y;
  };
  for (const table of all("table.sortable")) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    heads.forEach((head, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        // Numbers first from the high end: that is where one looks.
        const first = head.classList.contains("number") ? "descending" : "ascending";
        const second = first === "ascending" ? "descending" : "ascending";
        const way = head.getAttribute("aria-sort") === first ? second : first;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", way);
        const key = (row) => row.cells[at].dataset.sort ?? row.cells[at].textContent.trim();
        const sign = way === "ascending" ? 1 : -1;
        const rows = [...body.rows].sort((a, b) => {
          const x = key(a), y = key(b);
          return x === "" || y === "" ? (x === "") - (y === "") : sign * order(x, y);
        });
        body.append(...rows);
      });
    });
    if (body.rows.length > 15) {
      const filter = document.createElement("input");
      Object.assign(filter, { type: "search", className: "filter", placeholder: "Filter rows" });
      filter.setAttribute("aria-label", "Filter rows of: " + table.caption.textContent);
      filter.addEventListener("input", () => {
        const wanted = filter.value.trim().toLowerCase();
        table.classList.toggle("filtered", wanted !== "");
        for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
      });
      table.closest(".framed").before(filter);
    }
  }

  // A long table begins with ten rows; without this script all are there.
  for (const table of all("table.ten-rows")) {
    const rest = document.createElement("button");
    const fold = (short) => {
      table.classList.toggle("short", short);
      rest.textContent = short ? `Show all ${table.tBodies[0].rows.length}` : "Show ten";
    };
    rest.className = "rest";
    rest.addEventListener("click", () => fold(!table.classList.contains("short")));
    fold(true);
    table.parentElement.after(rest);
  }

  // A table wider than the page says so: in words, by a shade where columns are hidden, and to screen readers. So do
  // the sections' names in a narrow window, by the shade.
  for (const area of all(".table, nav ol")) {
    const frame = area.parentElement, table = area.firstElementChild, label = area.getAttribute("aria-label");
    const tell = () => {
      // what is wider than its column takes the room at its left, too
      if (table.tHead && area.scrollWidth > area.clientWidth + 1) frame.classList.add("wide");
      const hidden = area.scrollWidth - area.clientWidth;
      if (table.tHead) frame.style.setProperty("--head", `${area.offsetTop + table.tHead.offsetTop}px`);
      frame.classList.toggle("hidden-left", area.scrollLeft > 1);
      frame.classList.toggle("hidden-right", area.scrollLeft < hidden - 1);
      if (label) area.setAttribute("aria-label", hidden > 1 ? `${label} (scrolls sideways)` : label);
    };
    area.addEventListener("scroll", tell, { passive: true });
    const sizes = new ResizeObserver(tell);
    sizes.observe(area);
    sizes.observe(table);
    window.addEventListener("resize", () => frame.classList.remove("wide"));
  }

  // What is folded and what is open stays so, per experiment, in browsers that keep anything for a page.
  const shelf = `ltr-harness: ${document.title}`;
  let folds = null;
  try { folds = JSON.parse(localStorage.getItem(shelf)); } catch { /* nothing is kept */ }
  const open = new Map(Array.isArray(folds) ? folds.filter(Array.isArray) : []);
  for (const one of all("main details")) {
    const name = [one.closest("section").id];
    for (let up = one; up; up = up.parentElement.closest("details")) name.push(up.firstElementChild.textContent);
    const key = name.join("\n");
    if (open.has(key)) one.open = open.get(key) === true;
    one.addEventListener("toggle", () => {
      open.set(key, one.open);
      try { localStorage.setItem(shelf, JSON.stringify([...open])); } catch { /* nothing is kept */ }
    });
  }

  // A link to a folded section opens it.
  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let up = target?.querySelector("details") ?? target; up; up = up.parentElement?.closest("details")) up.open = true;
  };
  window.addEventListener("hashchange", unfold);
  document.querySelector("nav").addEventListener("click", (event) => { if (event.target.closest("a")) setTimeout(unfold); });
  unfold();

  // Charts. Colours are the page's CSS variables, so a theme switch or printing redraws nothing.
  const { specs, theme } = JSON.parse(document.getElementById("charts").textContent);
  const views = new Map();
  const fitted = (spec, width) => {
    if (!spec.facet) return spec;
    const { panels, labels, each } = spec.usermeta;
    width -= labels;
    const most = Math.max(1, Math.min(panels, Math.floor(width / (235 + each))));
    const columns = Math.ceil(panels / Math.ceil(panels / most)); // rows of even length
    const room = Math.floor((width - 66 - each - (22 + each) * (columns - 1)) / columns);
    const own = Math.max(120, Math.min(340, room));
    const header = { ...spec.facet.header, labelLimit: own + each };
    return { ...spec, columns, facet: { ...spec.facet, header }, spec: { ...spec.spec, width: own } };
  };
  // The chart library is unpacked for the first chart; the page's policy lets this one script run, by digest.
  let library = null;
  const unpacked = () => (library ??= (async () => {
    const characters = atob(document.getElementById("library").textContent);
    const packed = new Uint8Array(characters.length);
    for (let at = 0; at < packed.length; at += 1) packed[at] = characters.charCodeAt(at); // `from` takes 50 ms
    const text = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
    const script = document.createElement("script");
    script.textContent = text;
    document.head.append(script);
    script.remove();
  })());
  const draw = async (plot, room) => {
    await unpacked();
    const name = plot.dataset.chart, words = plot.getAttribute("aria-label");
    const embed = (width) => window.vegaEmbed(plot, fitted(structuredClone(specs[name]), width), {
      actions: false, ast: true, config: theme, defaultStyle: false, mode: "vega-lite", renderer: "svg",
      tooltip: { disableDefaultStyle: true },
    });
    let done = await embed(room);
    const over = plot.querySelector("svg").width.baseVal.value - room; // as written: asking the page lays it out anew
    if (over > 0 && specs[name].facet) { // a font whose labels are wider than `fitted` takes them to be
      done.finalize();
      done = await embed(room - over - fitted(specs[name], room).columns); // each column has whole pixels
    }
    views.get(name)?.finalize();
    views.set(name, done.view);
    plot.querySelector("svg").setAttribute("aria-hidden", "true"); // its place says it in words, as a whole
    plot.setAttribute("role", "img"); // the library calls each "Vega visualization"
    plot.setAttribute("aria-label", words);
    plot.removeAttribute("aria-roledescription");
    plot.dataset.drawn = "yes";
    if (picked.size) tell(done.view);
  };
  // The page is there before its charts are; then one at a time, so that what the reader does comes in between.
  const drawAll = async (plots) => {
    const idle = () => new Promise((go) => (window.requestIdleCallback ?? setTimeout)(go, { timeout: 300 }));
    await idle();
    const folded = (plot) => plot.closest("details:not([open])") !== null;
    plots.sort((a, b) => folded(a) - folded(b)); // what is in view first; the rest is there when a section is opened
    const rooms = plots.map((plot) => plot.clientWidth || document.querySelector("main").clientWidth);
    for (const [at, plot] of plots.entries()) {
      await (folded(plot) ? idle() : new Promise((go) => setTimeout(go)));
      await draw(plot, rooms[at]).catch((problem) => {
        plot.textContent = plot.getAttribute("aria-label"); // the words say what the picture would
        console.error(problem);
      });
    }
  };

  // Pick a model once and see it everywhere.
  const picked = new Set();
  for (const button of all("button.model")) button.setAttribute("aria-pressed", "false");
  const tell = (view) => view.signal("picked", [...picked]).runAsync();
  const show = () => {
    document.body.classList.toggle("some-picked", picked.size > 0);
    for (const button of all("button.model")) {
      const isPicked = picked.has(button.textContent);
      button.setAttribute("aria-pressed", isPicked);
      button.closest("tr").classList.toggle("picked", isPicked);
    }
    views.forEach(tell);
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.model");
    if (!button) return;
    const name = button.textContent;
    if (!picked.delete(name)) picked.add(name);
    show();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && picked.size) { picked.clear(); show(); }
  });

  // Of several answers the chosen one is shown, and its charts are drawn when it is.
  const plots = () => all(".plot:not([hidden] *)");
  for (const choice of all(".choice")) {
    const answers = all(":scope > .option", choice);
    choice.querySelector("select").addEventListener("change", ({ target }) => {
      answers.forEach((answer, at) => { answer.hidden = at !== target.selectedIndex; });
      drawAll(all(".plot", answers[target.selectedIndex]));
    });
  }
  if (plots().length) {
    drawAll(plots());
    let width = window.innerWidth, waiting;
    window.addEventListener("resize", () => {
      if (window.innerWidth === width) return; // a phone's address bar coming and going
      width = window.innerWidth;
      clearTimeout(waiting);
      waiting = setTimeout(() => drawAll(plots()), 150);
    });
  }

  // The navigation shows where one is.
  const links = new Map(all("nav a").map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  all("main > section").forEach((section) => seen.observe(section));
})();
