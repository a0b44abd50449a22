import ChildProcesses
import Glibc
import Judges

/// Runs this program with `count` requests, with or without a watchdog. Returns its facts by name, and its remarks.
func facts(requests count: Int, isWatched: Bool) throws -> (facts: [String: Double], remarks: [String]) {
  let words = ["--requests=\(count)"] + (isWatched ? [] : ["--unwatched"])
  let (text, status) = try Spawn.output(of: CommandLine.arguments[0], words)
  let lines = text.split(separator: "\n").map(String.init)
  guard status == 0 else {
    throw ProofError("the service with \(count) requests failed: \(lines.suffix(3))")
  }
  var facts: [String: Double] = [:]
  var remarks: [String] = []
  for line in lines {
    let parts = line.split(separator: "=", maxSplits: 1)
    if parts.count == 2, let value = Double(parts[1]) { facts[String(parts[0])] = value }
    if line.hasPrefix("remark=") { remarks.append(String(line.dropFirst(7))) }
  }
  return (facts, remarks)
}

let bounds: [(name: String, unit: String, bound: ClosedRange<Double>?)] = [
  ("compute.named", "stalls", 2...2), ("sleep.named", "stalls", 2...2), ("lock.named", "stalls", 2...2),
  ("compute.delay", "ms", 0...100), ("sleep.delay", "ms", 0...100), ("lock.delay", "ms", 0...100),
  ("processor", "% of a processor", 0...6), ("resident", "MiB", 0...100),
  ("handler.delay", "ms", 0...50), ("failures", "operations", 0...0), ("stall_files", "files", 0...16),
  ("threads", "threads", 0...8), ("threads.added", "threads", nil), ("latency_ratio", "times", 0...1.1),
  ("latency", "ms", nil), ("operations", "operations", nil),
  ("compute.samples", "samples", nil), ("sleep.samples", "samples", nil), ("lock.samples", "samples", nil),
  ("taken", "samples", nil), ("dropped", "samples", nil), ("spared", "samples", nil),
  ("problems", "problems", nil),
]

/// Measures the service with each number of requests. Prints figures and a table. Returns whether all bounds hold.
func compare(_ counts: [Int]) throws -> Bool {
  let figures = Figures(write: { print($0, terminator: "") }, complain: { print("# " + $0) })
  figures.note(machineDescription())
  var columns: [(count: Int, facts: [String: Double])] = []
  for count in counts {
    let (unwatched, _) = try facts(requests: count, isWatched: false)
    var (found, remarks) = try facts(requests: count, isWatched: true)
    found["latency_ratio"] = (found["latency"] ?? .nan) / (unwatched["latency"] ?? .nan)
    found["failures"] = (found["failures"] ?? .nan) - (unwatched["failures"] ?? .nan)
    columns.append((count, found))
    for (name, unit, bound) in bounds {
      let value = found[name] ?? .nan
      if let bound {
        figures.print("outage.\(count).\(name)", value, unit, in: bound)
      } else {
        figures.print("outage.\(count).\(name)", value, unit)
      }
    }
    for remark in remarks { figures.note("\(count): \(remark)") }
  }
  func line(_ name: String, _ cells: [String]) {
    let padded = cells.map { String(repeating: " ", count: max(1, 10 - $0.count)) + $0 }
    figures.note(name + String(repeating: " ", count: max(1, 18 - name.count)) + padded.joined())
  }
  line("requests", columns.map { "\($0.count)" })
  for (name, _, _) in bounds { line(name, columns.map { $0.facts[name].map(Figures.text) ?? "-" }) }
  return figures.allHold
}
