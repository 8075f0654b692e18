/** Says that changes of others may come late. It lies over the page's foot, so that nothing moves. */
export function LiveBar({ paused }: { paused: boolean }) {
  return (
    <div role="status" className="live-bar-place">
      {paused && <p className="live-bar">Live updates paused, retrying</p>}
    </div>
  );
}
