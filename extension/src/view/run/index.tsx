import { ReactWidget } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import * as React from 'react';
import { IJtrain } from '../../tokens';
import { SessionContext } from './context';
import { RunPanel } from './panel';
import { Session } from './session';

/**
 * One run: its metrics, devices, logs, checkpoints and how it came to be. Stands in the sidebar and in the main area.
 */
export class RunView extends ReactWidget {
  /** `others` are the runs to lay over it. */
  constructor(jtrain: IJtrain, runId: string, others: string[] = []) {
    super();
    this.runId = runId;
    this._session = new Session(jtrain, runId, others);
    this.addClass('jp-JtrainRun');
    this.node.dataset.jtrain = 'run';
    this.node.dataset.runId = runId;
    this.title.label = this._session.main.name;
    this.title.caption = runId;
    this.title.closable = true;
    this._session.main.changed.connect(this._onRun, this);
  }

  readonly runId: string;

  dispose(): void {
    if (!this.isDisposed) {
      this._session.main.changed.disconnect(this._onRun, this);
      super.dispose();
      this._session.dispose();
    }
  }

  protected render(): JSX.Element {
    return (
      <SessionContext.Provider value={this._session}>
        <RunPanel />
      </SessionContext.Provider>
    );
  }

  protected onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    this.node.tabIndex = -1;
    this.node.focus();
  }

  private _onRun(): void {
    this.title.label = this._session.main.name;
  }

  private _session: Session;
}
