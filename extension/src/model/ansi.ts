/** How text looks: what SGR escape codes can ask for. Colours are a number of the palette (0–15) or `rgb(r, g, b)`. */
export interface IStyle {
  colour: number | string | null;
  background: number | string | null;
  isBold: boolean;
  isDim: boolean;
  isItalic: boolean;
  isUnderlined: boolean;
  isStruck: boolean;
  isInverse: boolean;
}

/** Text of one look. */
export interface ISpan {
  text: string;
  style: IStyle;
}

export const PLAIN: IStyle = {
  colour: null,
  background: null,
  isBold: false,
  isDim: false,
  isItalic: false,
  isUnderlined: false,
  isStruck: false,
  isInverse: false
};

// Escape sequences: CSI, then OSC and its kin with their end, then two-character ones; last, other control characters.
const ESCAPES =
  // eslint-disable-next-line no-control-regex
  /\x1b\[([0-9;:?<=>]*)[ -/]*([@-~])|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f\x7f]/g;

/** What an escape sequence that isn't complete yet begins with, at the end of a text. */
// eslint-disable-next-line no-control-regex
const OPEN = /\x1b(?:\[[0-9;:?<=> -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)$/;

/**
 * Split `text` into stretches of one look, beginning with `style`. Escape codes other than colours, and control
 * characters, are left out; the look at the end is the second answer.
 */
export function parseAnsi(text: string, style: IStyle): [ISpan[], IStyle] {
  const spans: ISpan[] = [];
  let start = 0;
  const add = (piece: string) => {
    const last = spans[spans.length - 1];
    if (last?.style === style) {
      last.text += piece;
    } else if (piece) {
      spans.push({ text: piece, style });
    }
  };
  const shown = text.replace(OPEN, '');
  for (const match of shown.matchAll(ESCAPES)) {
    add(shown.slice(start, match.index));
    start = match.index + match[0].length;
    if (match[2] === 'm') {
      style = restyle(style, match[1]);
    }
  }
  add(shown.slice(start));
  return [spans, style];
}

/** `style` changed by the numbers of an SGR sequence. */
function restyle(style: IStyle, numbers: string): IStyle {
  const codes = numbers.split(/[;:]/).map(Number);
  let next = { ...style };
  for (let index = 0; index < codes.length; index++) {
    const code = codes[index];
    if (code === 38 || code === 48) {
      const [colour, used] = extended(codes.slice(index + 1));
      next[code === 38 ? 'colour' : 'background'] = colour;
      index += used;
    } else if (code === 0) {
      next = { ...PLAIN };
    } else {
      Object.assign(next, SIMPLE[code] ?? colourOf(code));
    }
  }
  return next;
}

const SIMPLE: { [code: number]: Partial<IStyle> } = {
  1: { isBold: true },
  2: { isDim: true },
  3: { isItalic: true },
  4: { isUnderlined: true },
  7: { isInverse: true },
  9: { isStruck: true },
  22: { isBold: false, isDim: false },
  23: { isItalic: false },
  24: { isUnderlined: false },
  27: { isInverse: false },
  29: { isStruck: false },
  39: { colour: null },
  49: { background: null }
};

function colourOf(code: number): Partial<IStyle> {
  const bright = code >= 90 ? 60 : 0;
  const tens = code - bright;
  if (tens >= 30 && tens <= 37) {
    return { colour: tens - 30 + (bright ? 8 : 0) };
  }
  if (tens >= 40 && tens <= 47) {
    return { background: tens - 40 + (bright ? 8 : 0) };
  }
  return {};
}

/** The colour after code 38 or 48, and how many numbers it took. */
function extended(codes: number[]): [number | string | null, number] {
  if (codes[0] === 5) {
    return [ofTable(codes[1]), 2];
  }
  if (codes[0] === 2) {
    return [rgb(codes[1], codes[2], codes[3]), 4];
  }
  return [null, 0];
}

/** Colour `index` of the table of 256: the palette, a cube of 6 × 6 × 6, then greys. */
function ofTable(index: number): number | string | null {
  if (!(index >= 0 && index <= 255)) {
    return null;
  }
  if (index < 16) {
    return index;
  }
  if (index >= 232) {
    const grey = 8 + 10 * (index - 232);
    return rgb(grey, grey, grey);
  }
  const level = (step: number) => (step ? 55 + 40 * step : 0);
  const place = index - 16;
  return rgb(
    level(Math.floor(place / 36)),
    level(Math.floor(place / 6) % 6),
    level(place % 6)
  );
}

function rgb(...parts: number[]): string {
  const bytes = parts.map(part => Math.min(255, Math.max(0, part | 0)));
  return `rgb(${bytes.join(', ')})`;
}
