import { ISpan, IStyle, PLAIN, parseAnsi } from './ansi';

/** Lines kept; older ones are dropped. */
const MOST_LINES = 5_000;

/** Characters kept of one line: a program may print megabytes without an end of line. */
const LONGEST_LINE = 4_000;

/** A line of a log: its raw text, and how text looks where it begins. */
interface ILine {
  raw: string;
  start: IStyle;
  cut: number;
}

/**
 * The end of one rank's log, as a terminal would show it: a carriage return begins the line anew.
 */
export class LogBuffer {
  constructor(mostLines = MOST_LINES) {
    this._mostLines = mostLines;
  }

  /** Lines that were dropped before the first one here. */
  dropped = 0;

  /** Whether something older than these lines was never fetched. */
  isCut = false;

  get numLines(): number {
    const isOpenEmpty = this._open.raw === '' && this._open.cut === 0;
    return this._lines.length + (isOpenEmpty ? 0 : 1);
  }

  append(text: string): void {
    const pieces = text.split('\n');
    pieces.forEach((piece, index) => {
      this._extend(piece);
      if (index < pieces.length - 1) {
        this._close();
      }
    });
    // In bulk, so that a log which grows line by line isn't moved in memory for each.
    const excess = this._lines.length - this._mostLines;
    if (excess > this._mostLines / 4) {
      this._lines.splice(0, excess);
      this.dropped += excess;
    }
  }

  /** The stretches of line `index` (from 0), for showing. */
  spans(index: number): ISpan[] {
    const line = this._line(index);
    const [spans] = parseAnsi(line.raw, line.start);
    if (line.cut) {
      spans.push({ text: ` … +${line.cut}`, style: { ...PLAIN, isDim: true } });
    }
    return spans;
  }

  /** The text of line `index` (from 0) without colours. */
  text(index: number): string {
    return this.spans(index)
      .map(span => span.text)
      .join('');
  }

  private _line(index: number): ILine {
    return index < this._lines.length ? this._lines[index] : this._open;
  }

  private _extend(piece: string): void {
    let line = this._open;
    // A return at the very end may belong to an end of line that is still to come.
    const joined = line.raw + piece;
    const back = joined.lastIndexOf('\r', joined.length - 2);
    if (back >= 0) {
      const [, start] = parseAnsi(joined.slice(0, back), line.start);
      line = { raw: joined.slice(back + 1), start, cut: 0 };
    } else {
      line.raw = joined;
    }
    if (line.raw.length > LONGEST_LINE) {
      const isReturn = line.raw.endsWith('\r');
      line.cut += line.raw.length - LONGEST_LINE;
      line.raw = line.raw.slice(0, LONGEST_LINE - Number(isReturn));
      line.raw += isReturn ? '\r' : '';
    }
    this._open = line;
  }

  private _close(): void {
    const line = this._open;
    if (line.raw.endsWith('\r')) {
      line.raw = line.raw.slice(0, -1);
    }
    this._lines.push(line);
    const [, start] = parseAnsi(line.raw, line.start);
    this._open = { raw: '', start, cut: 0 };
  }

  private _mostLines: number;
  private _lines: ILine[] = [];
  private _open: ILine = { raw: '', start: PLAIN, cut: 0 };
}
