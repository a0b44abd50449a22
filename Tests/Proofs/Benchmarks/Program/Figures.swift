import CulpritOptions
import Glibc

/// Prints figures and holds them against their bounds.
final class Figures {
  /// Whether every figure so far is within its bound.
  private(set) var allHold = true
  private let output: CommandOutput

  init(output: CommandOutput) { self.output = output }

  /// Prints a figure without a bound.
  func print(_ name: String, _ value: Double, _ unit: String) { output.print("\(name) \(text(value)) \(unit)\n") }

  /// Prints a figure that must lie in `bound`.
  func print(_ name: String, _ value: Double, _ unit: String, in bound: ClosedRange<Double>) {
    print(name, value, unit)
    guard !bound.contains(value) else { return }
    allHold = false
    output.error(
      "\(name) is \(text(value)) \(unit), but must be from \(text(bound.lowerBound)) to \(text(bound.upperBound))"
    )
  }

  /// Prints a remark.
  func note(_ text: String) { output.print("# \(text)\n") }

  /// `value` with three decimals at most.
  private func text(_ value: Double) -> String {
    guard value.isFinite, abs(value) < 1e15 else { return "\(value)" }
    if value == value.rounded() { return "\(Int(value))" }
    let thousandths = Int((abs(value) * 1000).rounded())
    var digits = "\(thousandths / 1000)." + String("\(1000 + thousandths % 1000)".dropFirst())
    while digits.last == "0" { digits.removeLast() }
    if digits.last == "." { digits.removeLast() }
    return (value < 0 ? "-" : "") + digits
  }
}

/// What the figures were measured on.
func machineDescription() -> String {
  var system = utsname()
  uname(&system)
  func text<Field>(_ field: Field) -> String {
    withUnsafeBytes(of: field) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
  }
  let processor = readFile("/proc/cpuinfo").split(separator: "\n").first { $0.hasPrefix("model name") }
  let model = processor.flatMap { $0.split(separator: ":").last }.map { $0.drop { $0 == " " } } ?? "unknown processor"
  return
    "\(text(system.machine)), \(sysconf(Int32(_SC_NPROCESSORS_ONLN))) processors (\(model)), Linux \(text(system.release))"
}

/// The text of a small file, empty when it cannot be read.
func readFile(_ path: String) -> String {
  let descriptor = open(path, O_RDONLY | O_CLOEXEC)
  guard descriptor >= 0 else { return "" }
  defer { close(descriptor) }
  var bytes: [UInt8] = []
  var chunk = [UInt8](repeating: 0, count: 64 << 10)
  while true {
    let count = read(descriptor, &chunk, chunk.count)
    guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
    bytes += chunk[..<count]
  }
}

/// The middle of `values`.
func median(_ values: [Double]) -> Double {
  let sorted = values.sorted()
  guard !sorted.isEmpty else { return .nan }
  let middle = sorted.count / 2
  return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/// What keeps a benchmark from measuring.
struct BenchError: Error, CustomStringConvertible {
  var description: String
}
