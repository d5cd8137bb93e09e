import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';
import { Axis, MetricSeries } from '../../model/series';
import { MetricSource } from '../../model/sources';
import { Range, Viewport } from '../../model/viewport';
import { IJtrain } from '../../tokens';
import { RunData, acquireRun, releaseRun } from './data/run';

/** After a zoom it takes this long without another one until detail is fetched, in milliseconds. */
const DETAIL_PAUSE_MS = 150;

/** A detail that holds more than this many times what is shown is fetched anew, if points were left out of it. */
const COARSE = 4;

let numSessions = 0;

/**
 * What one run view shows: its run, the runs laid over it, and what all its charts have in common.
 */
export class Session implements IDisposable {
  constructor(
    readonly jtrain: IJtrain,
    readonly runId: string,
    others: string[] = []
  ) {
    const { smoothing } = jtrain.settings;
    this.viewport.update({ smoothing: Math.min(Math.max(smoothing, 0), 0.99) });
    this.main = acquireRun(jtrain, runId);
    this._runs = [this.main];
    this._follow(this.main);
    others.forEach(id => this.overlay(id));
    this.viewport.changed.connect(this._askDetail, this);
  }

  readonly main: RunData;
  readonly viewport = new Viewport(() => this._domain());
  readonly syncKey = `jtrain-${numSessions++}`;

  /** The run and those laid over it. */
  get runs(): readonly RunData[] {
    return this._runs;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Runs were laid over or taken away. */
  get runsChanged(): ISignal<this, void> {
    return this._runsChanged;
  }

  /** Points of some run have come. */
  get pointsChanged(): ISignal<this, void> {
    return this._pointsChanged;
  }

  /** Number of a run's colour; it stays while the run does. */
  colour(run: RunData): number {
    return this._colours.get(run.id) ?? 0;
  }

  overlay(id: string): void {
    if (this._runs.every(run => run.id !== id)) {
      const run = acquireRun(this.jtrain, id);
      this._runs.push(run);
      this._follow(run);
      this._visible.forEach(name => run.points.want([name]));
      this._runsChanged.emit();
    }
  }

  remove(id: string): void {
    const run = this._runs.find(candidate => candidate.id === id);
    if (run && run !== this.main) {
      this._runs = this._runs.filter(candidate => candidate !== run);
      this._colours.delete(id);
      this._release(run);
      this._runsChanged.emit();
    }
  }

  /** A chart of the metric `name` is seen, or isn't any more. */
  see(name: string, isSeen: boolean): void {
    if (isSeen) {
      this._visible.add(name);
      this._runs.forEach(run => run.points.want(this._known(run, name)));
      this._askDetail();
    } else {
      this._visible.delete(name);
    }
  }

  /** The metric `name` of `run` as a curve; null until it is here. */
  source(run: RunData, name: string): MetricSource | null {
    const series = run.points.series.get(name);
    if (!series) {
      return null;
    }
    const key = `${run.id} ${name}`;
    const known = this._sources.get(key);
    if (known?.series === series && known.origin === run.origin) {
      return known;
    }
    const source = new MetricSource(series, run.origin);
    this._sources.set(key, source);
    return source;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      window.clearTimeout(this._timer);
      this._runs.forEach(run => this._release(run));
      Signal.disconnectReceiver(this);
      Signal.clearData(this);
    }
  }

  /** `name` if `run` has such a metric: an overlaid run needs not. */
  private _known(run: RunData, name: string): string[] {
    return !run.facts || run.facts.metrics.includes(name) ? [name] : [];
  }

  private _follow(run: RunData): void {
    const used = new Set(this._colours.values());
    let colour = 0;
    while (used.has(colour)) {
      colour++;
    }
    this._colours.set(run.id, colour);
    run.points.changed.connect(this._onPoints, this);
    run.readings.changed.connect(this._onPoints, this);
    run.changed.connect(this._onRun, this);
  }

  private _release(run: RunData): void {
    run.points.changed.disconnect(this._onPoints, this);
    run.readings.changed.disconnect(this._onPoints, this);
    run.changed.disconnect(this._onRun, this);
    releaseRun(this.jtrain, run);
  }

  private _onRun(run: RunData): void {
    this._visible.forEach(name => run.points.want(this._known(run, name)));
    this._onPoints();
  }

  private _onPoints(): void {
    this._pointsChanged.emit();
  }

  /** From the first to the last `x` of everything that is here. */
  private _domain(): Range | null {
    const { axis } = this.viewport.state;
    let domain: Range | null = null;
    const add = (series: MetricSeries, origin: number) => {
      const extent = series.extent(axis);
      if (extent) {
        const offset = axis === 'time' ? origin : 0;
        const [from, to] = [extent[0] - offset, extent[1] - offset];
        domain = domain
          ? [Math.min(domain[0], from), Math.max(domain[1], to)]
          : [from, to];
      }
    };
    for (const run of this._runs) {
      run.points.series.forEach(series => add(series, run.origin));
    }
    // Over steps the readings stand where the metrics do.
    if (axis === 'time') {
      for (const { load } of this.main.readings.devices.values()) {
        add(load, this.main.origin);
      }
    }
    return domain;
  }

  private _askDetail(): void {
    window.clearTimeout(this._timer);
    if (this.viewport.state.range) {
      this._timer = window.setTimeout(
        () => this._fetchDetail(),
        DETAIL_PAUSE_MS
      );
    }
  }

  private _fetchDetail(): void {
    const { axis, range } = this.viewport.state;
    if (!range) {
      return;
    }
    for (const run of this._runs) {
      for (const name of this._visible) {
        const source = this.source(run, name);
        if (source?.needsDetail(axis, range, COARSE)) {
          void this._fetchOne(run, name, source, axis, range);
        }
      }
    }
  }

  private async _fetchOne(
    run: RunData,
    name: string,
    source: MetricSource,
    axis: Axis,
    range: Range
  ): Promise<void> {
    const extent = source.extent(axis);
    if (!extent) {
      return;
    }
    // As much again on either side: for moving a little, and for a running mean to settle.
    const width = range[1] - range[0];
    const ends: Range = [
      Math.max(extent[0], range[0] - width),
      Math.min(extent[1], range[1] + width)
    ];
    const offset = axis === 'time' ? run.origin : 0;
    const asked: Range = [ends[0] + offset, ends[1] + offset];
    try {
      const series = await run.points.detail(name, axis, asked);
      source.detail = series.length ? { series, axis, ends } : null;
      this._onPoints();
    } catch {
      // The coarse curve stays, and the next zoom asks again; a lost connection is shown elsewhere.
      source.detail = null;
    }
  }

  private _runs: RunData[];
  private _colours = new Map<string, number>();
  private _visible = new Set<string>();
  private _sources = new Map<string, MetricSource>();
  private _timer = 0;
  private _isDisposed = false;
  private _runsChanged = new Signal<this, void>(this);
  private _pointsChanged = new Signal<this, void>(this);
}
