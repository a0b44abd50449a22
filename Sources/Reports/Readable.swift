/// `duration` as reports print it: "5.01 s", "250 ms".
public func readable(_ duration: Duration) -> String { Formatting.duration(duration) }

/// `text` as reports print names: what would move the cursor, begin a line or colour the terminal is escaped.
public func printable(_ text: String) -> String { Formatting.printable(text) }
