/// `duration` as reports print it: "5.01 s", "250 ms".
public func readable(_ duration: Duration) -> String { Formatting.duration(duration) }
