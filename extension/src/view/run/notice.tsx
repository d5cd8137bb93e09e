import * as React from 'react';

export interface INoticeProps {
  kind: 'loading' | 'empty' | 'gone' | 'failed' | 'lost' | 'hint';
  text: string;
  action?: string;
  onAction?: () => void;
}

/** A sentence to the user, in place of or above what it is about. */
export function Notice(props: INoticeProps): JSX.Element {
  const isUrgent = props.kind === 'failed' || props.kind === 'lost';
  return (
    <div
      className={`jp-JtrainNotice jp-mod-${props.kind}`}
      role={isUrgent ? 'alert' : 'status'}
      data-notice={props.kind}
    >
      <span>{props.text}</span>
      {props.action && (
        <button
          type="button"
          className="jp-JtrainRun-button"
          onClick={props.onAction}
        >
          {props.action}
        </button>
      )}
    </div>
  );
}
