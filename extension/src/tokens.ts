import { TranslationBundle } from '@jupyterlab/translation';
import { IDisposable } from '@lumino/disposable';
import { ISignal } from '@lumino/signaling';
import { MachineModel } from './model/machine';
import { RunsModel } from './model/runs';
import {
  IActionAnswer,
  IActionWish,
  IChoice,
  IFollowWish,
  ILogAnswer,
  IMachineState,
  IMetricsAnswer,
  IRunAnswer,
  IRunRow,
  IRunsAnswer,
  ISamplesAnswer,
  ISparksAnswer,
  StreamMessage
} from './wire';

/** Which part of a run's metrics is asked for. */
export interface IMetricsOptions {
  names?: string[];
  maxPoints?: number;
  axis?: 'step' | 'time';
  from?: number;
  to?: number;
}

/** The server's REST routes. Each rejects with an `ApiProblem`. */
export interface IJtrainApi {
  runs(): Promise<IRunsAnswer>;
  sparks(ids: string[]): Promise<ISparksAnswer>;
  run(id: string): Promise<IRunAnswer>;
  metrics(id: string, options?: IMetricsOptions): Promise<IMetricsAnswer>;
  samples(id: string, maxPoints?: number): Promise<ISamplesAnswer>;
  logs(id: string, rank: number, lines: number): Promise<ILogAnswer>;
  machine(): Promise<IMachineState>;
  choice(): Promise<IChoice>;
  choose(uuids: string[]): Promise<IChoice>;
  act(id: string, wish: IActionWish): Promise<IActionAnswer>;
}

/** `missing`: the server doesn't know jtrain's routes. */
export type ConnectionState = 'connecting' | 'live' | 'lost' | 'missing';

/** What one watcher wants; `follow` is called again at each connection, so that it gives the newest cursors. */
export interface IPartialWish {
  machine?: boolean;
  runs?: boolean;
  follow?: () => IFollowWish[];
}

/** One watcher's wish; it ends when this is disposed. */
export interface IWatch extends IDisposable {
  update(wish: IPartialWish): void;
}

/** The page's one connection to the server; the wishes of all watchers are merged. */
export interface IJtrainStream {
  readonly state: ConnectionState;
  readonly stateChanged: ISignal<IJtrainStream, ConnectionState>;
  /** When the connection was lost, in milliseconds since the epoch; 0 while it is there. */
  readonly lostSince: number;
  /** Whether figures are fetched every few seconds, because only the socket doesn't get through. */
  readonly isPolling: boolean;
  readonly message: ISignal<IJtrainStream, StreamMessage>;
  watch(wish: IPartialWish): IWatch;
  /** Try to connect now rather than when it is due. */
  reconnect(): void;
}

/** The user's settings, with their defaults. */
export interface IJtrainSettings {
  notifications: boolean;
  smoothing: number;
  maxPoints: number;
  side: 'left' | 'right';
}

/** What every view of the extension needs. */
export interface IJtrain {
  readonly api: IJtrainApi;
  readonly stream: IJtrainStream;
  readonly trans: TranslationBundle;
  readonly machine: MachineModel;
  readonly runs: RunsModel;
  readonly settings: IJtrainSettings;
  readonly settingsChanged: ISignal<unknown, IJtrainSettings>;
  /** Emitted when colours have to be read anew. */
  readonly themeChanged: ISignal<unknown, unknown>;
  openRun(id: string, where: 'panel' | 'main'): void;
  openNotebook(run: IRunRow): void;
}
