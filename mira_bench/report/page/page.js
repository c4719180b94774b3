// What a page does beyond showing itself: the theme, drawing the charts, sorting, filtering and copying tables, fiducials.
"use strict";
(() => {
  const root = document.documentElement;
  const color = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const element = (tag, text, parent) => {
    const made = document.createElement(tag);
    made.textContent = text; // never as HTML: names come from files
    parent?.append(made);
    return made;
  };

  // The look of all marks, in the colors of the theme.
  const look = () => {
    const text = { labelColor: color("ink"), titleColor: color("soft"), titleFontWeight: "normal" };
    const font = "system-ui, -apple-system, Segoe UI, Roboto, sans-serif";
    return {
      background: "transparent", font, view: { stroke: null },
      axis: { ...text, labelFontSize: 12, titleFontSize: 12, gridColor: color("grid"), domainColor: color("edge"), tickColor: color("edge") },
      legend: { ...text, labelFontSize: 12 },
      style: {
        error: { strokeWidth: 2 }, dot: { filled: true, size: 90, opacity: 1 },
        zero: { color: color("ink"), strokeDash: [4, 3], strokeWidth: 1 }, expected: { color: color("ink"), thickness: 2, size: 20 },
        exact: { color: color("exact"), opacity: 0.75 }, paper: { color: color("band"), opacity: 1 },
        line: { strokeWidth: 2 }, mean: { strokeWidth: 2, color: color("ink") }, around: { opacity: 0.16, strokeWidth: 0 },
        cell: { stroke: color("paper"), strokeWidth: 1 }, number: { color: color("number"), fontSize: innerWidth < 600 ? 8 : 11 },
        many: { filled: true, size: 22, opacity: 0.65 }, bin: { filled: true, size: 60, opacity: 1, color: color("ink") },
        sample: { filled: true, size: 7, opacity: 0.5 }, pile: { opacity: 0.45 }, truth: { color: color("ink"), strokeWidth: 1.3 },
        one: { thickness: 2, size: 18, opacity: 0.8 }, said: { color: color("ink"), align: "left", dx: 10, fontSize: 11 },
      },
    };
  };
  // Scales name their colors; a dash is an array of numbers and stays as it is.
  const tint = (node) => {
    if (Array.isArray(node)) return node.map(tint);
    if (node === null || typeof node !== "object") return node;
    return Object.fromEntries(Object.entries(node).map(([key, value]) => [key,
      key === "data" ? value
        : key === "scale" && Array.isArray(value?.range) ? { ...value, range: value.range.map((one) => (typeof one === "string" ? color(one) : one)) }
        : tint(value)]));
  };

  const tip = document.getElementById("tip");
  const hover = (_, event, __, value) => {
    tip.hidden = value === null || value === undefined || value === "";
    if (tip.hidden) return;
    tip.replaceChildren();
    for (const [key, one] of Object.entries(Object(value))) {
      const line = element("div", "", tip);
      element("span", `${key}: `, line);
      line.append(String(one));
    }
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16}px`;
  };

  // What a reader chose to see in a chart: a fiducial, and candidates by their place.
  const choiceOf = (plot) => plot.closest("section").querySelector(".choice");
  const follow = (plot, view) => {
    const choice = choiceOf(plot);
    if (!choice) return;
    const [list, boxes] = [choice.querySelector("select"), [...choice.querySelectorAll("input:checked")]];
    view.signal("fiducial", Number(list.value)).signal("shown", boxes.map((box) => Number(box.value)));
    const names = boxes.map((box) => box.parentElement.textContent.trim()).join(", ") || "nobody";
    plot.dataset.alt ??= plot.getAttribute("aria-label");
    plot.setAttribute("aria-label", `Fiducial ${list.selectedOptions[0].textContent}, ${names}. ${plot.dataset.alt}`);
  };
  // Panels side by side share the width of the page.
  const panels = (plot, config) => {
    const cells = Number(plot.dataset.cells ?? 0);
    if (!cells) return config;
    const size = Math.max(30, Math.min(165, (plot.clientWidth - 75) / cells - 6));
    const axis = { ...config.axis, titleLimit: size, labelFontSize: size < 70 ? 9 : 11, titleFontSize: size < 70 ? 10 : 12 };
    return { ...config, axis, view: { stroke: null, continuousWidth: size, continuousHeight: size } };
  };

  const views = new Map();
  const draw = async () => {
    const config = look();
    views.forEach((view) => view.finalize());
    views.clear();
    for (const plot of document.querySelectorAll(".plot")) {
      const spec = tint(JSON.parse(plot.nextElementSibling.textContent));
      const compiled = vegaLite.compile({ ...spec, config: panels(plot, config) }).spec;
      compiled.description = plot.getAttribute("aria-label");
      const view = new vega.View(vega.parse(compiled), { renderer: "svg", container: plot, hover: true }).tooltip(hover);
      const pick = plot.dataset.pick;
      if (pick) view.addEventListener("click", (_, item) => {
        if (item?.datum?.[pick] !== undefined) location.hash = `fiducial-${item.datum[pick]}${plot.closest("section").dataset.tag}`;
      });
      follow(plot, view);
      views.set(plot, view);
      await view.runAsync();
    }
  };
  for (const choice of document.querySelectorAll(".choice")) choice.addEventListener("change", (event) => {
    const about = event.target.selectedOptions?.[0].dataset.about; // who is why this fiducial is shown
    if (about) choice.querySelector(`input[value="${about}"]`).checked = true;
    for (const plot of choice.closest("section").querySelectorAll(".plot")) {
      follow(plot, views.get(plot));
      views.get(plot).runAsync();
    }
  });

  const button = document.getElementById("theme");
  const remember = (theme) => { try { localStorage.setItem("mira_bench theme", theme); } catch { /* a page from disk may not */ } };
  const remembered = () => { try { return localStorage.getItem("mira_bench theme"); } catch { return null; } };
  const show = (theme) => {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "light" : "dark";
    return draw();
  };
  button.addEventListener("click", () => {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    remember(theme);
    show(theme);
  });

  // Tables. A column of numbers sorts by them, "-" last; a number may have its error behind it.
  const NUMBER = /^[≤<~]?\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?:!|\s*±.*|\s*\[.*\]|\s*%)?$/i;
  const value = (cell) => { const found = NUMBER.exec(cell.textContent.trim()); return found ? parseFloat(found[1]) : NaN; };
  const empty = (cell) => ["", "-"].includes(cell.textContent.trim());
  for (const box of document.querySelectorAll("details.table")) {
    const table = box.querySelector("table");
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    const numeric = heads.map((_, j) => [...body.rows].some((row) => !empty(row.cells[j])) && [...body.rows].every((row) => empty(row.cells[j]) || !Number.isNaN(value(row.cells[j]))));
    numeric.forEach((is, j) => is && [...body.rows].forEach((row) => row.cells[j].classList.add("number")));
    heads.forEach((head, j) => head.firstElementChild.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((one) => one.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      const compare = (a, b) => {
        const [x, y] = [a.cells[j], b.cells[j]];
        if (empty(x) || empty(y)) return empty(x) - empty(y);
        return sign * (numeric[j] ? value(x) - value(y) : x.textContent.localeCompare(y.textContent, undefined, { numeric: true }));
      };
      body.append(...[...body.rows].sort(compare));
    }));
    box.querySelector("input").addEventListener("input", (event) => {
      const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of body.rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    });
    const shown = () => [heads.map((head) => head.textContent.trim()), ...[...body.rows].filter((row) => !row.hidden).map((row) => [...row.cells].map((cell) => cell.textContent.trim()))];
    box.querySelectorAll("[data-copy]").forEach((one) => one.addEventListener("click", async () => {
      const text = one.dataset.copy === "csv" ? csv(shown()) : latex(shown());
      box.querySelector("output").textContent = (await copy(text)) ? `${shown().length - 1} rows copied` : "the browser does not let a page copy";
    }));
  }
  const csv = (rows) => rows.map((row) => row.map((cell) => (/[",\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)).join(",")).join("\n") + "\n";
  const SPECIAL = { "\\": "\\textbackslash{}", "_": "\\_", "%": "\\%", "&": "\\&", "#": "\\#", "$": "\\$", "{": "\\{", "}": "\\}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "±": "$\\pm$", "σ": "$\\sigma$", "Δ": "$\\Delta$", "≤": "$\\le$" };
  const latex = (rows) => {
    const lines = rows.map((row) => row.map((cell) => cell.replace(/[\\_%&#${}~^±σΔ≤]/g, (one) => SPECIAL[one])).join(" & ") + " \\\\");
    return ["\\begin{tabular}{" + "l".repeat(rows[0].length) + "}", "\\toprule", lines[0], "\\midrule", ...lines.slice(1), "\\bottomrule", "\\end{tabular}", ""].join("\n");
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = element("textarea", text, document.body);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  };

  // An address that ends with #fiducial-17 shows what every candidate makes of it.
  const visit = () => {
    const wanted = /^#fiducial-(\d+)(-\d+)?$/.exec(location.hash);
    for (const store of document.querySelectorAll(".lookup")) {
      const panel = store.nextElementSibling;
      const known = JSON.parse(store.textContent);
      const mine = wanted && (wanted[2] ?? "") === store.closest("section").dataset.tag;
      const at = mine ? known.fiducials.indexOf(Number(wanted[1])) : -1;
      panel.hidden = at < 0;
      if (panel.hidden) continue;
      panel.replaceChildren();
      element("h3", `Fiducial ${wanted[1]}`, panel);
      const table = element("table", "", panel);
      const head = element("tr", "", element("thead", "", table));
      const metrics = Object.keys(known.scores);
      ["candidate", ...metrics].forEach((name) => element("th", name, head));
      const body = element("tbody", "", table);
      for (const name of [...new Set(metrics.flatMap((metric) => Object.keys(known.scores[metric])))]) {
        const row = element("tr", "", body);
        element("td", name, row);
        for (const metric of metrics) {
          const found = known.scores[metric][name]?.[at];
          element("td", found ? `${found[0]}${found[1] ? ` (${found[1] > 1 ? `number ${found[1]} from the worst` : "the worst"} of ${known.total})` : ""}` : "-", row);
        }
      }
      const list = document.querySelector(`#corner${wanted[2] ?? ""} .choice select`);
      if ([...list?.options ?? []].some((one) => one.value === wanted[1])) {
        list.value = wanted[1];
        list.dispatchEvent(new Event("change", { bubbles: true }));
        element("a", "its corner plot", element("p", "", panel)).href = `#corner${wanted[2] ?? ""}`;
      }
      panel.scrollIntoView({ block: "center" });
      panel.focus({ preventScroll: true });
    }
  };
  addEventListener("hashchange", visit);
  // Paper is white, and has all tables.
  let before = "light";
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details.table").forEach((one) => { one.open = true; });
    before = root.dataset.theme;
    if (before !== "light") show("light");
  });
  addEventListener("afterprint", () => { if (before !== "light") show(before); });

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => { if (!remembered()) show(event.matches ? "dark" : "light"); });
  show(remembered() ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")).then(visit).then(() => { root.dataset.drawn = String(views.size); });
})();
