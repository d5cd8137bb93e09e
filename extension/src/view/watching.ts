import * as React from 'react';
import { IPartialWish } from '../tokens';
import { useJtrain } from './context';

/** Ask the server for what `wish` says while the component that calls this is shown. */
export function useWatch(wish: IPartialWish): void {
  const { stream } = useJtrain();
  const { machine = false, runs = false } = wish;
  React.useEffect(() => {
    const watch = stream.watch({ machine, runs });
    return () => watch.dispose();
  }, [stream, machine, runs]);
}
