// A tile for each device, to choose from by click or key; it stands behind common.js.

function makeMeter() {
  const row = element("div", "jtrain-meter");
  row.append(element("span", "jtrain-what"), element("span", "jtrain-value"), makeBar("jtrain-bar jtrain-small"));
  return row;
}

function fillMeter(row, meter) {
  row.hidden = meter === null;
  if (meter === null) return;
  const [what, value, bar] = row.children;
  setText(what, meter.label);
  setBar(bar, meter.share);
  setText(value, meter.text);
  setReason(row, meter.reason);
}

/** A reading that is n/a says why, to the pointer and to a screen reader. */
function setReason(node, reason) {
  if (reason) node.title = reason;
  else node.removeAttribute("title");
}

function makeTile(model) {
  const tile = element("button", "jtrain-tile", { type: "button", "aria-pressed": "false" });
  const head = element("span", "jtrain-tile-head");
  head.append(element("span", "jtrain-tick", { "aria-hidden": "true" }), element("span", "jtrain-tile-label"));
  head.append(element("span", "jtrain-mark"));
  const figures = element("span", "jtrain-figures");
  const parts = {
    head,
    name: element("span", "jtrain-tile-name"),
    load: makeMeter(),
    memory: makeMeter(),
    figures,
    owner: element("span", "jtrain-owner"),
    note: element("span", "jtrain-tile-note")
  };
  tile.append(...Object.values(parts));
  tile.addEventListener("click", () => {
    const uuid = tile.dataset.device;
    if (tile.getAttribute("aria-disabled") === "true" && tile.getAttribute("aria-pressed") === "false") return;
    tile.setAttribute("aria-busy", "true");
    model.send({ toggle: uuid });
  });
  return { tile, parts };
}

function fillFigures(node, figures) {
  while (node.children.length < figures.length) node.append(element("span", "jtrain-figure"));
  while (node.children.length > figures.length) node.lastChild.remove();
  figures.forEach((figure, index) => {
    const isMissing = figure.text === "n/a";
    setText(node.children[index], isMissing ? `${figure.label} n/a` : figure.text);
    setReason(node.children[index], figure.reason);
  });
}

/** What a screen reader says of a tile: one sentence. */
function describe(tile) {
  const say = part => (part ? `${part.label} ${part.text}${part.reason ? ` (${part.reason})` : ""}` : "");
  return [
    [tile.label, tile.name].join(" "),
    say(tile.load),
    say(tile.memory),
    ...tile.figures.map(say),
    tile.owner === "free" ? "free" : tile.owner && `used by ${tile.owner}`,
    tile.note
  ]
    .filter(Boolean)
    .join(", ");
}

function fillTile({ tile, parts }, shown) {
  tile.dataset.device = shown.uuid;
  tile.classList.toggle("jtrain-lost", shown.is_lost);
  tile.classList.toggle("jtrain-used", !shown.is_free);
  tile.setAttribute("aria-disabled", String(!shown.can_choose));
  tile.setAttribute("aria-label", describe(shown));
  setText(parts.head.children[1], shown.label);
  setText(parts.head.children[2], shown.mark);
  parts.head.children[2].hidden = !shown.mark;
  setText(parts.name, shown.name);
  parts.name.title = `${shown.name}\n${shown.uuid}`;
  fillMeter(parts.load, shown.is_lost ? null : shown.load);
  fillMeter(parts.memory, shown.is_lost ? null : shown.memory);
  fillFigures(parts.figures, shown.is_lost ? [] : shown.figures);
  setText(parts.owner, shown.owner === "free" ? "free" : shown.owner && `used by ${shown.owner}`);
  parts.owner.title = shown.owner;
  setText(parts.note, shown.note);
  parts.note.hidden = !shown.note;
}

/** Arrow keys go from tile to tile, as in a grid. */
function moveFocus(event, grid) {
  // The notebook has its own use for these keys.
  if (event.key === "Enter" || event.key === " ") event.stopPropagation();
  const tiles = [...grid.children];
  const at = tiles.indexOf(event.target);
  const columns = tiles.filter(tile => tile.offsetTop === tiles[0].offsetTop).length;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  const next = event.key === "Home" ? 0 : event.key === "End" ? tiles.length - 1 : step === undefined ? -1 : at + step;
  if (at < 0 || next < 0 || next >= tiles.length) return;
  event.preventDefault();
  event.stopPropagation();
  tiles[next].focus();
}

function sentence(tiles, chosen) {
  if (chosen.length === 0) return tiles.length ? "Click a device to choose it for --gpus picker." : "";
  const labels = chosen.map(uuid => tiles.find(tile => tile.uuid === uuid)?.label ?? uuid);
  return `--gpus picker: ${labels.join(", ")}`;
}

export default {
  render({ model, el, signal }) {
    const root = element("div", "jtrain-box jtrain-picker", { role: "group", "aria-label": "Choose devices" });
    const grid = element("div", "jtrain-tiles");
    const empty = element("div", "jtrain-empty");
    const why = element("details", "jtrain-why");
    const whyText = element("div", "jtrain-why-text");
    why.append(element("summary", ""), whyText);
    setText(why.firstChild, "Why?");
    const host = element("div", "jtrain-host", { role: "group", "aria-label": "CPU and memory" });
    const line = element("div", "jtrain-choice", { role: "status", "aria-live": "polite" });
    const silent = element("div", "jtrain-silent", { role: "status" });
    const problem = element("div", "jtrain-problem", { role: "alert" });
    setText(silent, "The kernel doesn't answer: these readings are old.");
    silent.hidden = true;
    root.append(grid, empty, why, host, line, problem, silent);
    const made = [];
    const draw = () => {
      const shown = model.get("shown");
      const tiles = shown.tiles ?? [];
      while (made.length < tiles.length) {
        made.push(makeTile(model));
        grid.append(made[made.length - 1].tile);
      }
      while (made.length > tiles.length) made.pop().tile.remove();
      tiles.forEach((tile, index) => fillTile(made[index], tile));
      grid.hidden = tiles.length === 0;
      setText(empty, shown.no_gpu || (tiles.length ? "" : "Reading the devices …"));
      setText(whyText, (shown.explanation ?? []).join("\n"));
      why.hidden = whyText.textContent === "";
      empty.hidden = empty.textContent === "";
      const meters = shown.host ?? [];
      while (host.children.length < meters.length) host.append(makeMeter());
      meters.forEach((meter, index) => fillMeter(host.children[index], meter));
      setText(problem, shown.problem ?? "");
      problem.hidden = !shown.problem;
      choose();
    };
    const choose = () => {
      const chosen = model.get("chosen");
      for (const { tile } of made) tile.setAttribute("aria-pressed", String(chosen.includes(tile.dataset.device)));
      setText(line, sentence(model.get("shown").tiles ?? [], chosen));
      line.hidden = line.textContent === "";
    };
    const hear = content => {
      if (!content?.toggled) return;
      for (const { tile } of made) if (tile.dataset.device === content.toggled) tile.removeAttribute("aria-busy");
    };
    grid.addEventListener("keydown", event => moveFocus(event, grid));
    model.on("change:shown", draw);
    model.on("change:chosen", choose);
    model.on("msg:custom", hear);
    draw();
    el.append(root);
    const tellSilence = isSilent => {
      silent.hidden = !isSilent;
      root.classList.toggle("jtrain-old", isSilent);
    };
    return endWith(signal, keepPresent(model), watchSilence(model, "change:shown", tellSilence), () => {
      model.off("change:shown", draw);
      model.off("change:chosen", choose);
      model.off("msg:custom", hear);
    });
  }
};
