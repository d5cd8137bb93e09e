import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import { Session } from './session';

/** What every part of a run view needs. */
export const SessionContext = React.createContext<Session | null>(null);

/** The view's session; raises an error outside of a run view. */
export function useSession(): Session {
  const session = React.useContext(SessionContext);
  if (!session) {
    throw new Error('Used outside of a run view.');
  }
  return session;
}

export function useTrans(): TranslationBundle {
  return useSession().jtrain.trans;
}
