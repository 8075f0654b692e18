const shapes = {
  key: (
    <>
      <circle cx="5.25" cy="10.75" r="3" />
      <path d="M7.4 8.6 13.5 2.5M10.6 5.4l2.1 2.1" />
    </>
  ),
  copy: (
    <>
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.75" />
      <path d="M10.5 5.5V4.25A1.75 1.75 0 0 0 8.75 2.5h-4.5A1.75 1.75 0 0 0 2.5 4.25v4.5a1.75 1.75 0 0 0 1.75 1.75H5.5" />
    </>
  ),
  check: <path d="m3 8.5 3.5 3.5L13 4.5" />,
  warning: <path d="M8 2.25 14.5 13.5h-13L8 2.25ZM8 6.5v3.25M8 11.6v.15" />,
  plus: <path d="M8 3.25v9.5M3.25 8h9.5" />,
  close: <path d="m4 4 8 8M12 4l-8 8" />,
  sort: <path d="m5 6.25 3-3 3 3M5 9.75l3 3 3-3" />,
  chevron: <path d="m6 4 4 4-4 4" />,
  arrow: <path d="M8 3v10M4 9l4 4 4-4" />,
  pulse: <path d="M1.5 8.5h3l2-5.5 3 10 2-4.5h3" />,
  more: <path d="M3.5 8v.01M8 8v.01M12.5 8v.01" strokeWidth={2.25} />,
  search: <path d="m10.2 10.2 3.3 3.3M11.5 7a4.5 4.5 0 1 1-9 0 4.5 4.5 0 0 1 9 0Z" />,
} as const;

/** A line icon of 16 px. Words always stand beside it, so screen readers skip it. */
export function Icon({ name }: { name: keyof typeof shapes }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      {shapes[name]}
    </svg>
  );
}
