"use strict";
// Tables as text for an issue, a paper or a sheet: the rows as they are filtered and sorted now.
(() => {
  const MARKS = { better: "▲", worse: "▼" };
  const plain = (text) => text.replace(/\u2212/g, "-").replace(/\s+/g, " ").trim();

  const read = (cell) => {
    const copy = cell.cloneNode(true);
    const interval = plain(copy.querySelector(".around")?.textContent ?? "");
    const mark = copy.querySelector(".mark");
    const way = mark ? (mark.classList.contains("better") ? "better" : "worse") : "";
    for (const part of copy.querySelectorAll(".around, .mark, .tag")) part.remove();
    return {
      value: plain(copy.textContent), interval, mark: way, bold: copy.querySelector("strong") !== null,
      numeric: cell.matches(".number, td:not(.words)"), exact: cell.dataset.sort,
    };
  };
  const title = (cell) => {
    const copy = cell.cloneNode(true);
    copy.querySelector(".scale")?.remove();
    return plain(copy.textContent);
  };
  const grid = (table) => {
    const heads = [...table.tHead.rows].map((row) =>
      [...row.cells].flatMap((cell) => [title(cell), ...Array(cell.colSpan - 1).fill(null)]));
    const groups = heads.length > 1 ? heads[0].map((name, at, all) => {
      while (name === null) name = all[--at];
      return name;
    }) : [];
    const last = table.tHead.rows[table.tHead.rows.length - 1];
    return {
      caption: plain(table.caption.textContent),
      heads: heads[heads.length - 1].map((name, at) => [groups[at], name].filter(Boolean).join(" ")),
      numeric: [...last.cells].map((cell) => cell.classList.contains("number")),
      rows: [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => [...row.cells].map(read)),
      foot: [...(table.tFoot?.rows ?? [])].map((row) => [...row.cells].map(read)),
    };
  };

  const markdown = (found) => {
    const safe = (text) => text.replace(/[\\`*_[\]<>|~$]/g, "\\$&");
    const write = (cell) => {
      const value = cell.bold ? `**${safe(cell.value)}**` : safe(cell.value);
      return [value, safe(cell.interval), MARKS[cell.mark]].filter(Boolean).join(" ");
    };
    const line = (cells) => `| ${cells.join(" | ")} |`;
    return [
      line(found.heads.map(safe)),
      line(found.numeric.map((number) => (number ? "---:" : ":---"))),
      ...[...found.rows, ...found.foot].map((row) => line(row.map(write))),
    ].join("\n") + "\n";
  };

  const latex = (found) => {
    const special = {
      "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", $: "\\$", "&": "\\&", "#": "\\#", "%": "\\%", _: "\\_",
      "^": "\\textasciicircum{}", "~": "\\textasciitilde{}", "<": "\\textless{}", ">": "\\textgreater{}",
      "[": "{[}", "]": "{]}", "*": "{*}", "–": "--", "→": "$\\rightarrow$", "µ": "$\\mu$",
    };
    const safe = (text) => text.replace(/[\\{}$&#%_^~<>[\]*–→µ]/g, (sign) => special[sign]);
    const signs = { better: "$^{\\blacktriangle}$", worse: "$^{\\blacktriangledown}$" };
    const write = (cell) => {
      const text = cell.numeric ? safe(cell.value).replace(/-(?=\d)/g, "$-$") : safe(cell.value);
      const value = cell.bold ? `\\textbf{${text}}` : text;
      const around = cell.interval ? ` {\\scriptsize ${safe(cell.interval).replace(/-(?=\d)/g, "$-$")}}` : "";
      return value + (signs[cell.mark] ?? "") + around;
    };
    const line = (cells) => `${cells.join(" & ")} \\\\`;
    return [
      "% needs \\usepackage{booktabs,amssymb}",
      "\\begin{table}", "\\centering", `\\caption{${safe(found.caption)}}`,
      `\\begin{tabular}{${found.numeric.map((number) => (number ? "r" : "l")).join("")}}`, "\\toprule",
      line(found.heads.map(safe)), "\\midrule",
      ...found.rows.map((row) => line(row.map(write))),
      ...(found.foot.length ? ["\\midrule", ...found.foot.map((row) => line(row.map(write)))] : []),
      "\\bottomrule", "\\end{tabular}", "\\end{table}",
    ].join("\n") + "\n";
  };

  // Numbers at full precision, the ends of an interval in columns of their own.
  const csv = (found) => {
    const intervals = found.heads.map((_, at) => found.rows.some((row) => row[at].interval));
    const quote = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    // A name must not become a formula of the sheet it is pasted into.
    const words = (text) => quote(/^[=+\-@]/.test(text) ? `'${text}` : text);
    const ends = (cell) => (cell.interval.match(/[+-]?[\d.]+/g) ?? ["", ""]).map(quote);
    const value = (cell) => {
      if (!cell.numeric) return words(cell.value);
      const exact = cell.exact ?? cell.value;
      return exact !== "" && Number.isFinite(Number(exact)) ? exact : words(cell.value === "–" ? "" : cell.value);
    };
    const heads = found.heads.flatMap((name, at) => [words(name), ...(intervals[at] ? [`${name} low`, `${name} high`].map(words) : [])]);
    const lines = found.rows.map((row) => row.flatMap((cell, at) => [value(cell), ...(intervals[at] ? ends(cell) : [])]));
    return [heads, ...lines].map((line) => line.join(",")).join("\r\n") + "\r\n";
  };

  const toClipboard = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // an old browser, or a page opened from a place that is not trusted with the clipboard
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };

  const forms = { Markdown: markdown, LaTeX: latex, CSV: csv };
  for (const table of document.querySelectorAll("main table")) {
    const bar = document.createElement("div");
    bar.className = "copy";
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "Copy table: " + plain(table.caption.textContent));
    bar.append("Copy as ");
    for (const [name, write] of Object.entries(forms)) {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: name });
      button.addEventListener("click", async () => {
        await toClipboard(write(grid(table)));
        button.textContent = "copied";
        setTimeout(() => { button.textContent = name; }, 1500);
      });
      bar.append(button);
    }
    const frame = document.createElement("div");
    frame.className = "framed";
    table.parentElement.before(frame);
    frame.append(bar, table.parentElement);
  }
})();
