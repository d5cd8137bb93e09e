import { ISignal, Signal } from '@lumino/signaling';
import { IJtrainApi, IJtrainStream } from '../tokens';
import { IDeviceRow, IMachineState, StreamMessage } from '../wire';

/** How many samples of the past are kept: five minutes at one a second. */
const LENGTH = 300;

/** A reading over the last minutes; `null` where it couldn't be taken. */
export type Past = (number | null)[];

/**
 * What the machine's devices do, and which of them are chosen for the next run. Figures stay as they were last when the
 * connection is lost.
 */
export class MachineModel {
  constructor(
    private readonly _api: IJtrainApi,
    stream: IJtrainStream
  ) {
    stream.message.connect((_, message) => this._hear(message));
  }

  /** The last sample; `null` until there is one. */
  get state(): IMachineState | null {
    return this._state;
  }

  /** UUIDs of the devices chosen for the next run, in the order in which they were chosen. */
  get chosen(): readonly string[] {
    return this._chosen;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** What couldn't be done last; empty when all is well. */
  get problem(): string {
    return this._problem;
  }

  /** Load in percent over the last minutes; of the CPU for `null`. */
  load(uuid: string | null): Past {
    return (uuid === null ? this._cpu : this._load.get(uuid)) ?? [];
  }

  /** Choose a device for the next run, or choose it no more. */
  async toggle(uuid: string): Promise<void> {
    const chosen = this._chosen.includes(uuid)
      ? this._chosen.filter(other => other !== uuid)
      : [...this._chosen, uuid];
    await this.choose(chosen);
  }

  /** Choose these devices. It shows at once; choices reach the server in the order in which they were made. */
  async choose(uuids: string[]): Promise<void> {
    const before = this._chosen;
    const number = ++this._numAsked;
    this._setChosen(uuids);
    const answer = this._answered.then(() => this._api.choose(uuids));
    this._answered = answer.catch(() => undefined);
    let told: readonly string[] = before;
    try {
      told = (await answer).uuids;
      this._problem = '';
    } catch (error) {
      this._problem = (error as Error).message;
    }
    // An answer to an earlier choice says nothing about the later one.
    if (number === this._numAsked) {
      this._numAnswered = number;
      this._setChosen(told);
      void this._readMissed();
    }
    this._changed.emit();
  }

  private _hear(message: StreamMessage): void {
    if (message.type === 'choice') {
      // While a choice is on its way the server may still tell of the one before.
      if (this._numAnswered === this._numAsked) {
        this._setChosen(message.choice.uuids);
      } else {
        this._hasMissed = true;
      }
    } else if (message.type === 'machine') {
      this._state = message.machine;
      const { history } = message;
      if (history) {
        this._cpu = history.cpu_percent.slice(-LENGTH);
        const entries = Object.entries(history.load_percent);
        this._load = new Map(
          entries.map(([uuid, past]) => [uuid, past.slice(-LENGTH)])
        );
      } else {
        this._append(message.machine);
      }
      this._changed.emit();
    }
  }

  private _append(state: IMachineState): void {
    push(this._cpu, state.host.cpu_percent);
    for (const device of state.devices) {
      if (!this._load.has(device.uuid)) {
        this._load.set(device.uuid, []);
      }
    }
    for (const [uuid, past] of this._load) {
      const device = state.devices.find(other => other.uuid === uuid);
      push(past, device?.load_percent ?? null);
    }
  }

  /** Somebody else may have chosen meanwhile, and the server tells of that only once. */
  private async _readMissed(): Promise<void> {
    if (this._hasMissed) {
      this._hasMissed = false;
      const { uuids } = await this._api.choice();
      if (this._numAnswered === this._numAsked) {
        this._setChosen(uuids);
      }
    }
  }

  private _setChosen(uuids: readonly string[]): void {
    if (uuids.join() !== this._chosen.join()) {
      this._chosen = uuids;
      this._changed.emit();
    }
  }

  private _state: IMachineState | null = null;
  private _chosen: readonly string[] = [];
  private _problem = '';
  private _numAsked = 0;
  private _numAnswered = 0;
  private _hasMissed = false;
  private _answered: Promise<unknown> = Promise.resolve();
  private _cpu: Past = [];
  private _load = new Map<string, Past>();
  private readonly _changed = new Signal<this, void>(this);
}

function push(past: Past, value: number | null): void {
  past.push(value);
  if (past.length > LENGTH) {
    past.shift();
  }
}

/** The mean load of all GPUs that say theirs, in percent; `null` when none does. */
export function meanLoad(devices: readonly IDeviceRow[]): number | null {
  const known = devices
    .map(device => device.load_percent)
    .filter(load => load !== null);
  const sum = known.reduce((total, load) => total + load, 0);
  return known.length ? sum / known.length : null;
}
