import { SidePanel } from '@jupyterlab/ui-components';
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

  /** Show a run in the lower section. */
  showRun(id: string): void {
    this._slot.showRun(id, this._jtrain);
    (this.content as AccordionPanel).expand(RUN_SECTION);
  }

  private readonly _slot: RunSlot;
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
    if (id === this.runId) {
      return;
    }
    const layout = this.layout as PanelLayout;
    [...layout.widgets].forEach(widget => widget.dispose());
    this._view = new RunView(jtrain, id);
    layout.addWidget(this._view);
  }

  private _view: RunView | null = null;
}
