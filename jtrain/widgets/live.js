// The live view of a run; it stands behind common.js.

const SVG = "http://www.w3.org/2000/svg";
const CONFIRM_MS = 4000;

/** The curve as SVG path commands in a box of 100 by 30; gaps where a value is null. */
function path(values) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return "";
  const low = Math.min(...known);
  const span = Math.max(...known) - low || 1;
  let commands = "";
  let isDrawing = false;
  values.forEach((value, index) => {
    if (value !== null) {
      const x = (100 * index) / (values.length - 1);
      const y = 29 - (28 * (value - low)) / span;
      commands += `${isDrawing ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`;
    }
    isDrawing = value !== null;
  });
  return commands;
}

function makeCurve() {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "jtrain-curve");
  svg.setAttribute("viewBox", "0 0 100 30");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const line = document.createElementNS(SVG, "path");
  svg.append(line);
  return svg;
}

/** A button that asks the run for something; with `confirm` only its second click within some seconds does. */
function makeButton(label, command, model, confirm) {
  const button = element("button", `jtrain-button jtrain-${command}`, { type: "button" });
  let timer = 0;
  const reset = () => {
    clearTimeout(timer);
    timer = 0;
    button.textContent = label;
  };
  button.addEventListener("click", () => {
    if (confirm && !timer) {
      button.textContent = confirm;
      timer = setTimeout(reset, CONFIRM_MS);
      return;
    }
    reset();
    button.disabled = true;
    model.send({ command });
  });
  reset();
  return button;
}

function makeDevice() {
  const row = element("div", "jtrain-device");
  row.append(
    element("span", "jtrain-label"),
    makeBar("jtrain-bar jtrain-small"),
    element("span", "jtrain-number"),
    makeBar("jtrain-bar jtrain-small"),
    element("span", "jtrain-number")
  );
  return row;
}

function fillDevice(row, device) {
  const [label, loadBar, load, memoryBar, memory] = row.children;
  setText(label, device.label);
  setBar(loadBar, device.load);
  setText(load, device.load_text);
  setBar(memoryBar, device.memory);
  setText(memory, device.memory_text);
  row.setAttribute("aria-label", `${device.label}: load ${device.load_text}, memory ${device.memory_text}`);
}

function fillDevices(list, devices) {
  while (list.children.length < devices.length) list.append(makeDevice());
  while (list.children.length > devices.length) list.lastChild.remove();
  devices.forEach((device, index) => fillDevice(list.children[index], device));
}

function build(model) {
  const root = element("div", "jtrain-box jtrain-live", { role: "region" });
  const head = element("div", "jtrain-head");
  const badge = element("span", "jtrain-badge", { role: "status", "aria-live": "polite" });
  const name = element("span", "jtrain-name");
  const elapsed = element("span", "jtrain-elapsed");
  const pause = makeButton("Pause", "pause", model);
  const stop = makeButton("Stop", "stop", model, "Really stop?");
  const resume = makeButton("Resume", "resume", model);
  head.append(badge, name, elapsed, pause, resume, stop);
  const bar = makeBar("jtrain-bar jtrain-progress");
  bar.setAttribute("role", "progressbar");
  bar.setAttribute("aria-label", "Progress");
  const facts = element("div", "jtrain-facts");
  const note = element("div", "jtrain-note", { role: "status" });
  const middle = element("div", "jtrain-middle");
  const chart = element("div", "jtrain-chart");
  const curve = makeCurve();
  const metrics = element("div", "jtrain-metrics");
  chart.append(curve, metrics);
  const devices = element("div", "jtrain-devices");
  middle.append(chart, devices);
  const log = element("div", "jtrain-log", { tabindex: "0", role: "group", "aria-label": "Last output of rank 0" });
  root.append(head, bar, facts, note, middle, log);
  return { root, badge, name, elapsed, pause, resume, stop, bar, facts, note, chart, curve, metrics, devices, log };
}

function draw(parts, shown) {
  parts.root.setAttribute("aria-label", `Training run ${shown.id}`);
  parts.root.dataset.state = shown.state;
  setText(parts.badge, shown.state);
  setText(parts.name, shown.title);
  setText(parts.elapsed, shown.elapsed);
  setBar(parts.bar, shown.share);
  parts.bar.hidden = shown.share === null || Boolean(shown.is_still);
  if (shown.share !== null) {
    parts.bar.setAttribute("aria-valuenow", Math.round(100 * shown.share));
    parts.bar.setAttribute("aria-valuetext", `${Math.round(100 * shown.share)} %`);
  }
  setText(parts.facts, shown.facts.join("  ·  "));
  parts.facts.hidden = shown.facts.length === 0;
  setText(parts.note, shown.note);
  parts.note.hidden = !shown.note;
  parts.chart.hidden = shown.metrics.length === 0;
  const commands = path(shown.curve);
  parts.curve.toggleAttribute("hidden", commands === "");
  parts.curve.firstChild.setAttribute("d", commands);
  parts.curve.setAttribute("aria-label", `Curve of ${shown.curve_name}`);
  setText(parts.metrics, shown.metrics.map(([name, value]) => `${name} ${value}`).join("   "));
  fillDevices(parts.devices, shown.devices);
  const isAtEnd = parts.log.scrollTop + parts.log.clientHeight >= parts.log.scrollHeight - 4;
  setText(parts.log, shown.lines.join("\n"));
  parts.log.hidden = shown.lines.length === 0;
  if (isAtEnd) parts.log.scrollTop = parts.log.scrollHeight;
  parts.pause.disabled = !shown.can_pause;
  parts.pause.hidden = parts.stop.hidden = Boolean(shown.is_still);
  parts.stop.disabled = !shown.can_stop;
  parts.resume.hidden = !shown.can_resume;
  parts.resume.disabled = !shown.can_resume;
}

export default {
  render({ model, el, signal }) {
    const parts = build(model);
    const update = () => draw(parts, model.get("shown"));
    model.on("change:shown", update);
    update();
    el.append(parts.root);
    parts.log.scrollTop = parts.log.scrollHeight;
    const forget = model.get("wants_views") ? keepPresent(model) : () => {};
    return endWith(signal, forget, () => model.off("change:shown", update));
  }
};
