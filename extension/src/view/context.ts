import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import { IJtrain } from '../tokens';

export const JtrainContext = React.createContext<IJtrain | null>(null);

/** What every part of the panel works with. */
export function useJtrain(): IJtrain {
  const jtrain = React.useContext(JtrainContext);
  if (!jtrain) {
    throw new Error('a part of the panel stands outside of it');
  }
  return jtrain;
}

export function useTrans(): TranslationBundle {
  return useJtrain().trans;
}
