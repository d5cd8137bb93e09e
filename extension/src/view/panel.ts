import { SidePanel } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import { ISignal, Signal } from '@lumino/signaling';
import { AccordionPanel, PanelLayout, Widget } from '@lumino/widgets';
import { trainIcon } from '../icons';
import { IJtrain } from '../tokens';
import { ConnectionStrip } from './connection';
import { DevicesView } from './devices';
import { RunView } from './run';
import { RunsView } from './runs';

export const PANEL_ID = 'jtrain-panel';
const RUN_SECTION = 2;

/** The sidebar: devices, runs, and the run that is chosen. */
export class JtrainPanel extends SidePanel {
  constructor(private readonly _jtrain: IJtrain) {
    super();
    const { trans } = _jtrain;
    this.id = PANEL_ID;
    this.addClass('jp-JtrainPanel');
    this.title.icon = trainIcon;
    this.title.caption = trans.__('Training runs and devices');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('jtrain'));
    this.header.addWidget(new ConnectionStrip(_jtrain));
    this.addWidget(new DevicesView(_jtrain));
    this.addWidget(new RunsView(_jtrain));
    this._slot = new RunSlot(_jtrain);
    this.addWidget(this._slot);
  }

  /** The run shown in the lower section; `null` for none. */
  get runId(): string | null {
    return this._slot.runId;
  }

  /** Another run is shown in the lower section. */
  get runChanged(): ISignal<this, string> {
    return this._runChanged;
  }

  /** Show a run in the lower section. */
  showRun(id: string): void {
    this._later = null;
    if (id !== this.runId) {
      this._slot.showRun(id, this._jtrain);
      this._runChanged.emit(id);
    }
    (this.content as AccordionPanel).expand(RUN_SECTION);
  }

  /** Show a run, unless one is shown already, as soon as the panel is seen: until then it costs nothing. */
  showRunLater(id: string): void {
    if (this.runId === null) {
      this._later = id;
      this._showLater();
    }
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._showLater();
  }

  private _showLater(): void {
    if (this._later !== null && this.isVisible) {
      this.showRun(this._later);
    }
  }

  private readonly _slot: RunSlot;
  private readonly _runChanged = new Signal<this, string>(this);
  private _later: string | null = null;
}

/** The section for the chosen run. */
class RunSlot extends Widget {
  constructor(jtrain: IJtrain) {
    super();
    const { trans } = jtrain;
    this.addClass('jp-JtrainRunSlot');
    this.title.label = trans.__('Run');
    this.layout = new PanelLayout();
    const hint = new Widget();
    hint.addClass('jp-JtrainHint');
    hint.node.textContent = trans.__(
      'Choose a run above to see its curves, devices, logs and checkpoints. A double click opens it large.'
    );
    (this.layout as PanelLayout).addWidget(hint);
  }

  get runId(): string | null {
    return this._view?.runId ?? null;
  }

  showRun(id: string, jtrain: IJtrain): void {
    const layout = this.layout as PanelLayout;
    [...layout.widgets].forEach(widget => widget.dispose());
    this._view = new RunView(jtrain, id);
    layout.addWidget(this._view);
  }

  private _view: RunView | null = null;
}
