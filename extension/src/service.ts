import { TranslationBundle } from '@jupyterlab/translation';
import { ServerConnection } from '@jupyterlab/services';
import { Token } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';
import { Api } from './api';
import { MachineModel } from './model/machine';
import { RunsModel } from './model/runs';
import { Stream } from './stream';
import { IJtrain, IJtrainSettings } from './tokens';
import { IRunRow } from './wire';

/** The token by which other plugins get the one `IJtrain` of the page. */
export const IJtrainService = new Token<IJtrainService>(
  'jtrain:service',
  'Runs and devices of jtrain, and the views that show them.'
);
export type IJtrainService = Jtrain;

const DEFAULTS: IJtrainSettings = {
  notifications: true,
  smoothing: 0,
  maxPoints: 2000,
  side: 'right'
};

/** Models and server access, made once per page. How runs and notebooks are opened is put in by the plugins. */
export class Jtrain implements IJtrain {
  constructor(
    readonly trans: TranslationBundle,
    readonly themeChanged: ISignal<unknown, unknown>
  ) {
    const settings = ServerConnection.makeSettings();
    this.api = new Api(settings);
    this.stream = new Stream(settings, this.api);
    this.machine = new MachineModel(this.api, this.stream);
    this.runs = new RunsModel(this.api, this.stream);
  }

  readonly api: Api;
  readonly stream: Stream;
  readonly machine: MachineModel;
  readonly runs: RunsModel;

  get settings(): IJtrainSettings {
    return this._settings;
  }

  get settingsChanged(): ISignal<unknown, IJtrainSettings> {
    return this._settingsChanged;
  }

  setSettings(settings: Partial<IJtrainSettings>): void {
    this._settings = { ...DEFAULTS, ...settings };
    this._settingsChanged.emit(this._settings);
  }

  openRun(id: string, where: 'panel' | 'main'): void {
    this.onOpenRun?.(id, where);
  }

  openNotebook(run: IRunRow): void {
    this.onOpenNotebook?.(run);
  }

  onOpenRun: ((id: string, where: 'panel' | 'main') => void) | null = null;
  onOpenNotebook: ((run: IRunRow) => void) | null = null;
  private _settings = DEFAULTS;
  private readonly _settingsChanged = new Signal<this, IJtrainSettings>(this);
}
