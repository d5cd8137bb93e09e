// What all widgets share. Texts come from training runs and drivers: they are put in as text, never as HTML.

const BEAT_MS = 15000;
const SILENCE_MS = 6000;

function element(tag, className, attributes = {}) {
  const node = document.createElement(tag);
  node.className = className;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A bar that fills from the left; `share` is 0 to 1, or null when it isn't known. */
function setBar(bar, share) {
  bar.firstChild.style.width = share === null ? "0" : `${(100 * share).toFixed(1)}%`;
}

function makeBar(className) {
  const bar = element("div", className);
  bar.append(element("div", "jtrain-fill"));
  return bar;
}

/** Tells the kernel that somebody looks, for as long as the page is in front; returns the end of it. */
function keepPresent(model) {
  const view = Math.random().toString(36).slice(2);
  const say = present => model.send({ view, present });
  const beat = () => say(document.visibilityState === "visible");
  const timer = setInterval(() => document.visibilityState === "visible" && beat(), BEAT_MS);
  document.addEventListener("visibilitychange", beat);
  beat();
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", beat);
    say(false);
  };
}

/** Calls `tell(true)` when nothing has come for some seconds while the page was in front, `tell(false)` when it does. */
function watchSilence(model, event, tell) {
  let heard = Date.now();
  const hear = () => {
    heard = Date.now();
    tell(false);
  };
  const timer = setInterval(() => {
    if (document.visibilityState !== "visible") heard = Date.now();
    if (Date.now() - heard > SILENCE_MS) tell(true);
  }, 2000);
  model.on(event, hear);
  return () => {
    clearInterval(timer);
    model.off(event, hear);
  };
}

/** Runs every end once: at the view's removal, however the front end tells of it. */
function endWith(signal, ...ends) {
  let isOver = false;
  const end = () => {
    if (isOver) return;
    isOver = true;
    ends.forEach(one => one());
  };
  signal?.addEventListener("abort", end);
  return end;
}
