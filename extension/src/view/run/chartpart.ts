import { formatDuration, formatShort } from '../../model/numbers';
import { MetricSource } from '../../model/sources';
import { Range } from '../../model/viewport';
import { Chart, ILine } from '../chart/chart';
import { Legend } from '../chart/legend';
import { Session } from './session';

/** How often the words that stand for a chart are made anew, in milliseconds. */
const WORDS_PAUSE_MS = 1000;

/** What a chart shows; asked anew whenever points come. */
export interface IChartContent {
  lines: () => ILine[];

  /** Called when somebody can see the chart, and when nobody can any more. */
  onSeen?: (isSeen: boolean) => void;
  limits?: Range;
  format?: (value: number) => string;

  /** Distances that ticks of the y axis may have. */
  ticks?: number[];
  isPlain?: boolean;
}

/** The elements that a chart fills. */
export interface IChartPlaces {
  plot: HTMLElement;
  legend: HTMLElement;

  /** Says where the cursor is. */
  place: HTMLElement;
}

/**
 * A chart and its legend in a run view, kept up to date past React: they change up to 60 times a second.
 */
export class ChartPart {
  /** `content` gives what is to be shown now; `onWords` is called when the chart in words may have changed. */
  constructor(
    private readonly _session: Session,
    private readonly _places: IChartPlaces,
    private readonly _content: () => IChartContent,
    private readonly _onWords: () => void,
    height: number
  ) {
    const { trans } = _session.jtrain;
    const { format, limits, ticks, isPlain } = _content();
    this.chart = new Chart(_places.plot, {
      viewport: _session.viewport,
      syncKey: _session.syncKey,
      height,
      limits,
      formatY: format,
      ticksY: ticks,
      isPlain
    });
    this._legend = new Legend(_places.legend, {
      formatValue: format,
      toggleTitle: label => trans.__('Show or hide %1', label),
      onToggle: key => this._toggle(key)
    });
    this.chart.cursorMoved.connect((_, x) => {
      this._cursor = x;
      this._showValues();
    });
    this.chart.shownChanged.connect((_, isShown) =>
      this._content().onSeen?.(isShown)
    );
    this.chart.drawn.connect(() => {
      this._showValues();
      this._announce();
    });
    _session.pointsChanged.connect(this._onPoints);
    _session.runsChanged.connect(this._onPoints);
    _session.jtrain.themeChanged.connect(this._onTheme);
    this._onPoints();
  }

  readonly chart: Chart;

  dispose(): void {
    window.clearTimeout(this._timer);
    this._content().onSeen?.(false);
    this._session.pointsChanged.disconnect(this._onPoints);
    this._session.runsChanged.disconnect(this._onPoints);
    this._session.jtrain.themeChanged.disconnect(this._onTheme);
    this.chart.dispose();
  }

  private _onPoints = (): void => {
    this._takeLines();
    this.chart.refresh();
    this._timer ||= window.setTimeout(() => {
      this._timer = 0;
      this._onWords();
    }, WORDS_PAUSE_MS);
  };

  /** The style sheets of a new theme hold from the next frame on. */
  private _onTheme = (): void => {
    requestAnimationFrame(() => this.chart.updateTheme());
  };

  private _toggle(key: string): void {
    if (!this._hidden.delete(key)) {
      this._hidden.add(key);
    }
    this._takeLines();
  }

  private _takeLines(): void {
    const lines = this._content()
      .lines()
      .map(line => ({ ...line, isShown: !this._hidden.has(line.key) }));
    if (!isSame(this.chart.lines, lines)) {
      const focused = this._places.legend.contains(document.activeElement);
      const index = focused ? indexOfFocus(this._places.legend) : -1;
      this.chart.setLines(lines);
      this._legend.setLines(lines);
      const buttons = this._places.legend.children;
      (buttons[index] as HTMLElement | undefined)?.focus();
      const figure = this._places.plot.parentElement;
      figure?.classList.toggle('jp-mod-single', lines.length < 2);
    }
  }

  private _showValues(): void {
    const { axis } = this._session.viewport.state;
    const { trans } = this._session.jtrain;
    this._legend.update(axis, this._cursor);
    let text = '';
    if (this._cursor !== null) {
      text =
        axis === 'step'
          ? trans.__('step %1', formatShort(Math.round(this._cursor)))
          : formatDuration(Math.round(this._cursor * 10) / 10);
    }
    this._places.place.textContent = text;
  }

  /** Say in the page how far the chart has been drawn: tests and measurements wait for it. */
  private _announce(): void {
    const { plot } = this._places;
    const source = this.chart.lines[0]?.source;
    if (source instanceof MetricSource) {
      const { summary } = source.series;
      const [from, to] = this._session.viewport.shown ?? [];
      plot.dataset.points = String(summary.total);
      plot.dataset.from = String(from);
      plot.dataset.to = String(to);
      plot.dispatchEvent(
        new CustomEvent('jtrain-drawn', { bubbles: true, detail: summary })
      );
    }
  }

  private _legend: Legend;
  private _hidden = new Set<string>();
  private _cursor: number | null = null;
  private _timer = 0;
}

function indexOfFocus(host: HTMLElement): number {
  return [...host.children].indexOf(document.activeElement as Element);
}

function isSame(some: readonly ILine[], others: readonly ILine[]): boolean {
  return (
    some.length === others.length &&
    some.every((line, index) => {
      const other = others[index];
      return (
        line.key === other.key &&
        line.label === other.label &&
        line.source === other.source &&
        line.isShown === other.isShown
      );
    })
  );
}
