import CulpritOptions
import Glibc
import Programs

/// Prints figures and compares them with their bounds.
package final class Figures {
  /// Whether every figure so far is within its bound.
  package private(set) var allHold = true
  private let write: (String) -> Void
  private let complain: (String) -> Void

  /// - Parameters:
  ///   - write: Gets each line of the figures, with its newline.
  ///   - complain: Gets a message for each figure outside its bound.
  package init(write: @escaping (String) -> Void, complain: @escaping (String) -> Void) {
    self.write = write
    self.complain = complain
  }

  package convenience init(output: CommandOutput) { self.init(write: output.print, complain: output.error) }

  package func print(_ name: String, _ value: Double, _ unit: String) {
    write("\(name) \(Self.text(value)) \(unit)\n")
  }

  /// Prints a figure that must lie in `bound`: "name value unit (0 to 5)". `tools/prove` reads the bound.
  package func print(_ name: String, _ value: Double, _ unit: String, in bound: ClosedRange<Double>) {
    let range = "\(Self.text(bound.lowerBound)) to \(Self.text(bound.upperBound))"
    write("\(name) \(Self.text(value)) \(unit) (\(range))\n")
    guard !bound.contains(value) else { return }
    allHold = false
    complain("\(name) is \(Self.text(value)) \(unit), but must be from \(range)")
  }

  /// Prints a remark.
  package func note(_ text: String) { write("# \(text)\n") }

  /// Returns `value` with three decimals at most.
  package static func text(_ value: Double) -> String {
    guard value.isFinite, abs(value) < 1e15 else { return "\(value)" }
    if value == value.rounded() { return "\(Int(value))" }
    let thousandths = Int((abs(value) * 1000).rounded())
    var digits = "\(thousandths / 1000)." + String("\(1000 + thousandths % 1000)".dropFirst())
    while digits.last == "0" { digits.removeLast() }
    if digits.last == "." { digits.removeLast() }
    return (value < 0 ? "-" : "") + digits
  }
}

/// Runs a command-line tool with the proofs `names`: prints figures, and ends the process.
package func printFigures(
  _ command: String,
  _ table: OptionTable,
  _ names: [String],
  by body: (OptionTable.Arguments, Figures) throws -> Void
) -> Never {
  let output = CommandOutput(command: command)
  do {
    let parsed = try table.parse(CommandLine.arguments.dropFirst())
    if parsed.has("help") || parsed.operands.isEmpty {
      output.print(table.help())
      exit(parsed.has("help") ? 0 : 2)
    }
    for name in parsed.operands where !names.contains(name) {
      throw UsageError("there is no proof \"\(name)\"; there are \(names.joined(separator: ", "))")
    }
    let figures = Figures(output: output)
    output.print("# \(machineDescription())\n")
    try body(parsed, figures)
    exit(figures.allHold ? 0 : 1)
  } catch let error as UsageError {
    output.usage(error)
  } catch {
    output.error("\(error)")
    exit(1)
  }
}

/// Returns the processor architecture, the number and model of CPUs, and the kernel release.
package func machineDescription() -> String {
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

/// The reason why a proof cannot run.
package struct ProofError: Error, CustomStringConvertible {
  package let description: String
  package init(_ description: String) { self.description = description }
}

package func median(_ values: [Double]) -> Double {
  let sorted = values.sorted()
  guard !sorted.isEmpty else { return .nan }
  let middle = sorted.count / 2
  return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}
