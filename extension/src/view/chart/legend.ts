import { formatValue } from '../../model/numbers';
import { Axis } from '../../model/series';
import { ILine } from './chart';
import { NUM_COLOURS } from './theme';

export interface ILegendOptions {
  formatValue?: (value: number) => string;

  /** A click shows or hides a curve. */
  onToggle: (key: string) => void;

  /** What a click on `label` does, in words. */
  toggleTitle: (label: string) => string;
}

interface IEntry {
  line: ILine;
  button: HTMLElement;
  value: HTMLElement;
}

/**
 * The names of a chart's curves and their values under the cursor, else their last ones. Plain elements: they change
 * with every move of the cursor.
 */
export class Legend {
  constructor(
    private readonly _host: HTMLElement,
    private readonly _options: ILegendOptions
  ) {}

  setLines(lines: readonly ILine[]): void {
    this._entries = lines.map(line => this._entry(line));
    this._host.replaceChildren(...this._entries.map(({ button }) => button));
  }

  /** Show the values at `x`; null: the last ones. */
  update(axis: Axis, x: number | null): void {
    const format = this._options.formatValue ?? formatValue;
    for (const { line, value } of this._entries) {
      const shown =
        x === null ? line.source.last : line.source.nearest(axis, x)?.value;
      const text = shown === undefined ? '–' : format(shown);
      if (value.textContent !== text) {
        value.textContent = text;
      }
    }
  }

  private _entry(line: ILine): IEntry {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'jp-JtrainLegend-entry';
    button.title = this._options.toggleTitle(line.label);
    button.setAttribute('aria-pressed', String(line.isShown));
    button.addEventListener('click', () => this._options.onToggle(line.key));
    const swatch = document.createElement('span');
    swatch.className = 'jp-JtrainLegend-swatch';
    swatch.style.background = `var(--jp-JtrainLine${line.colour % NUM_COLOURS})`;
    const label = document.createElement('span');
    label.className = 'jp-JtrainLegend-label';
    label.textContent = line.label;
    const value = document.createElement('span');
    value.className = 'jp-JtrainLegend-value';
    button.append(swatch, label, value);
    return { line, button, value };
  }

  private _entries: IEntry[] = [];
}
