/// `duration` as reports print it: "5.01 s", "250 ms".
package func readable(_ duration: Duration) -> String { Formatting.duration(duration) }
