// The launcher's form; its fields come from the table of options. It stands behind common.js.

const OTHER = "…";
const WAIT_MS = 150;

/** A select; where other values are allowed too, with a text field for them. */
function makeChoice(field, id, onChange) {
  const box = element("span", "jtrain-input");
  const select = element("select", "jtrain-select", { id, "data-option": field.name });
  for (const [word, meaning] of field.words) {
    const option = element("option", "", { value: word });
    option.textContent = meaning === word ? word : `${word}: ${meaning}`;
    select.append(option);
  }
  box.append(select);
  if (field.is_closed) {
    select.addEventListener("change", onChange);
    return { box, get: () => select.value, set: text => (select.value = text) };
  }
  const other = element("option", "", { value: OTHER });
  other.textContent = "other …";
  select.append(other);
  const text = element("input", "jtrain-text", { type: "text", placeholder: field.placeholder, "aria-label": `${field.label}: other` });
  text.hidden = true;
  box.append(text);
  const words = field.words.map(([word]) => word);
  select.addEventListener("change", () => {
    text.hidden = select.value !== OTHER;
    if (!text.hidden) text.focus();
    onChange();
  });
  text.addEventListener("input", onChange);
  return {
    box,
    get: () => (select.value === OTHER ? text.value : select.value),
    set: value => {
      const isWord = words.includes(value);
      select.value = isWord ? value : OTHER;
      text.hidden = isWord;
      if (!isWord && text.value !== value) text.value = value;
    }
  };
}

function makeText(field, id, onChange) {
  const input = element("input", "jtrain-text", { id, type: "text", placeholder: field.placeholder, "data-option": field.name });
  if (field.is_number) input.inputMode = "numeric";
  input.addEventListener("input", onChange);
  return { box: input, get: () => input.value, set: value => input.value !== value && (input.value = value) };
}

function makeFields(fields, onChange) {
  const prefix = `jtrain-${Math.random().toString(36).slice(2)}`;
  const list = element("div", "jtrain-fields");
  const controls = new Map();
  for (const field of fields) {
    const id = `${prefix}-${field.name}`;
    const label = element("label", "jtrain-field", { for: id, title: `${field.flag}: ${field.help}` });
    label.textContent = field.label;
    const control = (field.words.length ? makeChoice : makeText)(field, id, onChange);
    control.box.title = field.help;
    controls.set(field.name, control);
    list.append(label, control.box);
  }
  return { list, controls };
}

export default {
  render({ model, el, signal }) {
    const root = element("form", "jtrain-box jtrain-launcher", { "aria-label": model.get("title") });
    const title = element("div", "jtrain-title");
    const command = element("code", "jtrain-command");
    const problem = element("div", "jtrain-problem", { role: "alert" });
    const notice = element("div", "jtrain-notice", { role: "status" });
    const button = element("button", "jtrain-button jtrain-launch", { type: "submit" });
    const last = element("div", "jtrain-last");
    const read = () => Object.fromEntries([...controls].map(([name, control]) => [name, control.get()]));
    let timer = 0;
    const change = () => {
      clearTimeout(timer);
      timer = setTimeout(() => model.send({ change: read() }), WAIT_MS);
    };
    const { list, controls } = makeFields(model.get("fields"), change);
    button.textContent = "Launch";
    last.append(button, command);
    root.append(title, list, last, problem, notice);
    root.addEventListener("submit", event => {
      event.preventDefault();
      clearTimeout(timer);
      if (!model.get("can_launch") || button.disabled) return;
      button.disabled = true;
      button.textContent = "Launching …";
      model.send({ launch: read() });
    });
    // JupyterLab's shortcuts must not take what is typed here.
    root.addEventListener("keydown", event => event.stopPropagation());
    const draw = () => {
      setText(title, model.get("title"));
      setText(command, model.get("command"));
      setText(problem, model.get("problem"));
      setText(notice, model.get("notice"));
      problem.hidden = !model.get("problem");
      notice.hidden = !model.get("notice");
      button.hidden = !model.get("can_launch");
    };
    const fill = () => {
      const values = model.get("values");
      for (const [name, control] of controls) control.set(values[name] ?? "");
    };
    const hear = content => {
      if (content?.heard !== "launch") return;
      button.disabled = false;
      button.textContent = model.get("problem") ? "Launch" : "Launch again";
    };
    model.on("change", draw);
    model.on("change:values", fill);
    model.on("msg:custom", hear);
    draw();
    fill();
    el.append(root);
    return endWith(signal, () => {
      clearTimeout(timer);
      model.off("change", draw);
      model.off("change:values", fill);
      model.off("msg:custom", hear);
    });
  }
};
