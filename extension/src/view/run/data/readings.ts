import { ISignal, Signal } from '@lumino/signaling';
import { MetricSeries } from '../../../model/series';
import { IJtrainApi } from '../../../tokens';
import { ISamplesAnswer } from '../../../wire';

const MAX_POINTS = 2_000;

/** What is known of one device of a run. */
export interface IDeviceReadings {
  uuid: string;
  label: string;

  /** In percent. */
  load: MetricSeries;

  /** In bytes. */
  memory: MetricSeries;
  memoryTotal: number | null;
}

/**
 * Readings of the devices that a run used.
 */
export class Readings {
  constructor(
    private readonly _api: Pick<IJtrainApi, 'samples'>,
    private readonly _id: string
  ) {}

  readonly devices = new Map<string, IDeviceReadings>();

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Fetch everything anew: the stream has no memory of readings. Raises what the API raises. */
  async load(): Promise<void> {
    const answer = await this._api.samples(this._id, MAX_POINTS);
    this.devices.clear();
    this._last = -Infinity;
    this.apply(answer);
  }

  /** Take in readings that are newer than those that are here. */
  apply(samples: ISamplesAnswer): void {
    const first = samples.times.findIndex(time => time > this._last);
    for (const uuid of Object.keys(samples.load_percent)) {
      const device = this._device(uuid, samples);
      if (first >= 0) {
        const times = samples.times.slice(first);
        const steps = times.map(() => 0);
        const add = (series: MetricSeries, readings: (number | null)[] = []) =>
          series.append(
            steps,
            times,
            times.map((_, index) => readings[first + index] ?? NaN)
          );
        add(device.load, samples.load_percent[uuid]);
        add(device.memory, samples.memory_used_bytes[uuid]);
      }
    }
    this._last = samples.times.reduce((a, b) => Math.max(a, b), this._last);
    this._changed.emit();
  }

  private _device(uuid: string, samples: ISamplesAnswer): IDeviceReadings {
    let device = this.devices.get(uuid);
    if (!device) {
      device = {
        uuid,
        label: samples.labels[uuid] ?? uuid,
        load: new MetricSeries(uuid),
        memory: new MetricSeries(uuid),
        memoryTotal: null
      };
      this.devices.set(uuid, device);
    }
    device.memoryTotal = samples.memory_total_bytes[uuid] ?? device.memoryTotal;
    return device;
  }

  private _last = -Infinity;
  private _changed = new Signal<this, void>(this);
}
