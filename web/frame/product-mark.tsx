/** The product's logo and name, as a link to the first page. */
export function ProductMark() {
  return (
    <a className="product-mark" href="/">
      <svg viewBox="0 0 24 24" aria-hidden="true" focusable="false">
        <rect width="24" height="24" rx="6.5" />
        <circle cx="9" cy="15" r="3.5" />
        <path d="M11.6 12.4 18 6m-2.7 2.7 2.1 2.1" />
      </svg>
      Keyrun
    </a>
  );
}
