import { ISignal, Signal } from '@lumino/signaling';
import uPlot from 'uplot';
import { IDrawn, IMark, align, positive } from '../../model/decimation';
import { formatShort } from '../../model/numbers';
import { ISource } from '../../model/sources';
import { Range, Viewport } from '../../model/viewport';
import { forgetFrame, onNextFrame } from './frame';
import { addGestures } from './gestures';
import { drawMarks } from './marks';
import { IStroke, RIGHT, Y_AXIS, optionsOf } from './options';
import { IChartTheme, NUM_COLOURS, themeOf } from './theme';

/** A curve in a chart. */
export interface ILine {
  key: string;
  label: string;
  source: ISource;

  /** Its number in the palette. */
  colour: number;
  isShown: boolean;
}

export interface IChartOptions {
  viewport: Viewport;

  /** Charts of the same key have one cursor. */
  syncKey: string;
  height: number;

  /** Ends of the y axis; without them they follow the data. */
  limits?: Range;
  formatY?: (value: number) => string;

  /** Distances that ticks of the y axis may have. */
  ticksY?: number[];

  /** Readings of devices are neither smoothed nor drawn on a log axis. */
  isPlain?: boolean;
}

/**
 * Curves in an element. Draws at most once per animation frame, and only while somebody can see it.
 */
export class Chart {
  constructor(host: HTMLElement, options: IChartOptions) {
    this._host = host;
    this._options = options;
    this._theme = themeOf(host);
    options.viewport.changed.connect(this._onView, this);
    this._resizes = new ResizeObserver(() => this._resize());
    this._resizes.observe(host);
    this._visibility = new IntersectionObserver(
      entries => this._show(entries[entries.length - 1].isIntersecting),
      { rootMargin: '100px' }
    );
    this._visibility.observe(host);
  }

  /** Where the cursor is on the x axis; null when it left. */
  get cursorMoved(): ISignal<this, number | null> {
    return this._cursorMoved;
  }

  /** Whether the chart came into view or left it. */
  get shownChanged(): ISignal<this, boolean> {
    return this._shownChanged;
  }

  /** The chart was drawn anew. */
  get drawn(): ISignal<this, void> {
    return this._drawn;
  }

  get isShown(): boolean {
    return this._isShown;
  }

  get canvas(): HTMLCanvasElement | null {
    return this._plot?.ctx.canvas ?? null;
  }

  get theme(): IChartTheme {
    return this._theme;
  }

  get lines(): readonly ILine[] {
    return this._lines;
  }

  setLines(lines: ILine[]): void {
    this._lines = lines;
    // The first line is what the chart is about: it lies over the others.
    this._stack = [...lines].reverse();
    this._rebuild();
  }

  /** Draw the newest points in the next frame. */
  readonly refresh = (): void => {
    if (this._isShown) {
      onNextFrame(this._draw);
    }
  };

  /** Take on the colours that hold now. */
  updateTheme(): void {
    this._theme = themeOf(this._host);
    this._rebuild();
  }

  dispose(): void {
    Signal.disconnectReceiver(this);
    this._options.viewport.changed.disconnect(this._onView, this);
    this._resizes.disconnect();
    this._visibility.disconnect();
    this._destroy();
    Signal.clearData(this);
  }

  private _onView(): void {
    const { axis, isLog, smoothing } = this._options.viewport.state;
    const shape = `${axis} ${isLog} ${smoothing > 0}`;
    if (shape !== this._shape) {
      this._shape = shape;
      this._rebuild();
    } else {
      this.refresh();
    }
  }

  private _show(isShown: boolean): void {
    if (isShown !== this._isShown) {
      this._isShown = isShown;
      if (isShown) {
        this._rebuild();
      } else {
        // Hundreds of charts out of sight must not hold hundreds of canvases.
        this._destroy();
      }
      this._shownChanged.emit(isShown);
    }
  }

  private _destroy(): void {
    forgetFrame(this._draw);
    this._endGestures();
    this._plot?.destroy();
    this._plot = null;
  }

  private _resize(): void {
    const width = this._host.clientWidth;
    if (this._plot && width > 0 && width !== this._plot.width) {
      this._plot.setSize({ width, height: this._options.height });
      this.refresh();
    }
  }

  /** Make the plot anew in the next frame. */
  private _rebuild(): void {
    this._destroy();
    this.refresh();
  }

  private _build(): uPlot | null {
    const { viewport, limits, formatY, ticksY, isPlain } = this._options;
    const width = this._host.clientWidth;
    if (width === 0) {
      return null;
    }
    const view = { ...viewport.state };
    if (isPlain) {
      view.isLog = false;
    }
    const options = optionsOf(
      {
        width,
        height: this._options.height,
        view,
        theme: this._theme,
        strokes: this._strokes(),
        syncKey: this._options.syncKey,
        limits: limits ?? null,
        formatY: formatY ?? formatShort,
        ticksY: ticksY ?? null
      },
      {
        draw: [plot => drawMarks(plot, this._marks, this._theme)],
        setSelect: [plot => this._select(plot)],
        setCursor: [plot => this._point(plot)]
      }
    );
    const plot = new uPlot(options, this._empty(), this._host);
    this._endGestures = addGestures(plot, viewport);
    return plot;
  }

  private get _isSmoothed(): boolean {
    const { viewport, isPlain } = this._options;
    return viewport.state.smoothing > 0 && !isPlain;
  }

  /** The curves as logged come first, so that the smoothed ones lie over them. */
  private _strokes(): IStroke[] {
    const strokes = (isFaint: boolean) =>
      this._stack.map(line => ({
        colour: this._theme.lines[line.colour % NUM_COLOURS],
        isFaint,
        isShown: line.isShown
      }));
    return this._isSmoothed
      ? [...strokes(true), ...strokes(false)]
      : strokes(false);
  }

  private _empty(): uPlot.AlignedData {
    return [[], ...this._strokes().map(() => [])];
  }

  private _draw = (): void => {
    this._plot ??= this._build();
    const plot = this._plot;
    if (!plot) {
      return;
    }
    const range = this._options.viewport.shown;
    const curves = range ? this._curves(range, plot) : [];
    if (range) {
      this._marks = curves.flatMap(curve => curve.marks);
      const isEmpty = curves.every(curve => curve.x.length === 0);
      // Without a point there are the ends still, so that the axis is that of the other charts.
      const data = isEmpty
        ? [range, ...curves.map(() => [null, null])]
        : align(curves);
      plot.batch(() => {
        plot.setData(data as uPlot.AlignedData, false);
        plot.setScale('x', { min: range[0], max: range[1] });
      });
    } else {
      this._marks = [];
      plot.setData(this._empty());
    }
    this._drawn.emit();
  };

  private _curves(range: Range, plot: uPlot): IDrawn[] {
    const { axis, smoothing, isLog } = this._options.viewport.state;
    const columns = Math.max(50, plot.width - Y_AXIS - RIGHT);
    const weights = this._isSmoothed ? [0, smoothing] : [0];
    return weights.flatMap(weight =>
      this._stack.map(line => {
        if (!line.isShown) {
          return { x: [], y: [], marks: [] };
        }
        const drawn = line.source.draw(axis, range, columns, weight);
        const isMarked = weight === 0;
        const marks = isMarked ? drawn.marks : [];
        const y = isLog && !this._options.isPlain ? positive(drawn.y) : drawn.y;
        return { x: drawn.x, y, marks };
      })
    );
  }

  private _select(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width > 0) {
      const from = plot.posToVal(left, 'x');
      const to = plot.posToVal(left + width, 'x');
      plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      this._options.viewport.zoom(from, to);
    }
  }

  private _point(plot: uPlot): void {
    const left = plot.cursor.left ?? -1;
    const place = left >= 0 ? plot.posToVal(left, 'x') : null;
    if (place !== this._place) {
      this._place = place;
      this._cursorMoved.emit(place);
    }
  }

  private _host: HTMLElement;
  private _options: IChartOptions;
  private _theme: IChartTheme;
  private _lines: ILine[] = [];
  private _stack: ILine[] = [];
  private _marks: IMark[] = [];
  private _plot: uPlot | null = null;
  private _endGestures: () => void = () => undefined;
  private _resizes: ResizeObserver;
  private _visibility: IntersectionObserver;
  private _isShown = false;
  private _shape = '';
  private _place: number | null = null;
  private _cursorMoved = new Signal<this, number | null>(this);
  private _shownChanged = new Signal<this, boolean>(this);
  private _drawn = new Signal<this, void>(this);
}
