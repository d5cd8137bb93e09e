import { ISignal, Signal } from '@lumino/signaling';
import { Axis } from './series';

export type Range = [number, number];

/** What all charts of a view have in common. */
export interface IViewState {
  axis: Axis;
  isLog: boolean;

  /** How much of the running mean stays at each point, 0 (as logged) to below 1. */
  smoothing: number;

  /** The part of the x axis that is looked at; null: all of it. Steps, or seconds since each run's start. */
  range: Range | null;
}

/** The narrowest part of the x axis that can be looked at, as a part of all of it. */
const NARROWEST = 1e-7;

/**
 * What all charts of a view have in common, and how it is changed: so zooming one zooms all.
 */
export class Viewport {
  /** `domain` gives all of the x axis; null while there are no points. */
  constructor(domain: () => Range | null) {
    this._domain = domain;
  }

  get state(): Readonly<IViewState> {
    return this._state;
  }

  get changed(): ISignal<this, Readonly<IViewState>> {
    return this._changed;
  }

  /** The part of the x axis that is shown now. */
  get shown(): Range | null {
    return this._state.range ?? this._domain();
  }

  update(change: Partial<IViewState>): void {
    const isNewAxis = change.axis && change.axis !== this._state.axis;
    this._state = { ...this._state, ...change };
    if (isNewAxis) {
      this._state.range = null;
    }
    this._changed.emit(this._state);
  }

  /** Look at `from` to `to`; at everything, when that covers it. */
  zoom(from: number, to: number): void {
    const domain = this._domain();
    if (!domain || !(to > from)) {
      return;
    }
    const [start, end] = domain;
    const width = Math.max(to - from, (end - start) * NARROWEST);
    if (from <= start && from + width >= end) {
      this.reset();
    } else {
      this.update({ range: [from, from + width] });
    }
  }

  /** Show `factor` times as much, with `anchor` staying in its place. */
  scale(factor: number, anchor: number): void {
    const shown = this.shown;
    const domain = this._domain();
    if (shown && domain) {
      const [start, end] = domain;
      const from = anchor - (anchor - shown[0]) * factor;
      const to = anchor + (shown[1] - anchor) * factor;
      this.zoom(Math.max(from, start), Math.min(to, end));
    }
  }

  /** Move by `distance`, no further than the ends. */
  pan(distance: number): void {
    const { range } = this._state;
    const domain = this._domain();
    if (range && domain) {
      const room = [domain[0] - range[0], domain[1] - range[1]];
      const allowed = Math.min(Math.max(distance, room[0]), room[1]);
      this.update({ range: [range[0] + allowed, range[1] + allowed] });
    }
  }

  reset(): void {
    this.update({ range: null });
  }

  private _domain: () => Range | null;
  private _state: IViewState = {
    axis: 'step',
    isLog: false,
    smoothing: 0,
    range: null
  };
  private _changed = new Signal<this, Readonly<IViewState>>(this);
}
