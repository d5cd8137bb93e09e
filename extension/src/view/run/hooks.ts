import { ISignal } from '@lumino/signaling';
import * as React from 'react';

/**
 * Render again when `signal` is emitted: at once, or at most once in `pauseMs` milliseconds.
 */
export function useSignal<S, A>(signal: ISignal<S, A>, pauseMs = 0): void {
  const [, render] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    let timer = 0;
    const onChange = () => {
      if (pauseMs === 0) {
        render();
        return;
      }
      timer ||= window.setTimeout(() => {
        timer = 0;
        render();
      }, pauseMs);
    };
    signal.connect(onChange);
    // Something may have happened between rendering and now.
    onChange();
    return () => {
      signal.disconnect(onChange);
      window.clearTimeout(timer);
    };
  }, [signal, pauseMs]);
}
