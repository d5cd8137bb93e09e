import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';
import { IJtrain } from '../tokens';
import { JtrainContext, useJtrain } from './context';
import { useSignal } from './run/hooks';

/** A strip above the sections that says when there is no connection, and what to do. Empty while all is well. */
export class ConnectionStrip extends ReactWidget {
  constructor(private readonly _jtrain: IJtrain) {
    super();
    this.addClass('jp-JtrainConnection');
  }

  protected render(): JSX.Element {
    return (
      <JtrainContext.Provider value={this._jtrain}>
        <Strip />
      </JtrainContext.Provider>
    );
  }
}

function Strip(): JSX.Element | null {
  const { stream, trans } = useJtrain();
  useSignal(stream.stateChanged);
  if (stream.state === 'missing') {
    return (
      <div className="jp-JtrainStrip" role="alert" data-notice="missing">
        <p>
          {trans.__(
            "The server side of jtrain isn't active in the Python that runs this JupyterLab."
          )}
        </p>
        <p>{trans.__('Install it there, and start JupyterLab again:')}</p>
        <pre>
          {'pip install jtrain\njupyter server extension enable jtrain'}
        </pre>
      </div>
    );
  }
  if (stream.state === 'lost' && stream.isPolling) {
    return (
      <div className="jp-JtrainStrip" role="status" data-notice="polling">
        {trans.__(
          'The live connection does not get through; a proxy may cut websockets. Figures are fetched every few seconds instead.'
        )}
      </div>
    );
  }
  if (stream.state === 'lost') {
    const since = new Date(stream.lostSince).toLocaleTimeString();
    return (
      <div className="jp-JtrainStrip" role="alert" data-notice="lost">
        <span>
          {trans.__(
            'No connection to the server since %1. Runs go on; what you see is from then.',
            since
          )}
        </span>
        <button
          type="button"
          className="jp-JtrainLink"
          onClick={() => stream.reconnect()}
        >
          {trans.__('Try now')}
        </button>
      </div>
    );
  }
  return null;
}
