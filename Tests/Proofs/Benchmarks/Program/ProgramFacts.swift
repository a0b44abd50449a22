import Judges
import ChildProcesses
import Glibc

/// The facts that the program `name` prints, one a line. The program is in this program's directory or, if given, in
/// that of `build`. Lines about failures are noted in `figures`.
func programFacts(
  _ name: String,
  _ words: [String],
  _ figures: Figures,
  environment: [String] = [],
  build: String? = nil
) throws -> [String] {
  let directory = CommandLine.arguments.first.map { String($0[..<($0.lastIndex(of: "/") ?? $0.startIndex)]) } ?? "."
  let program = directory + (build.map { "/../\($0)" } ?? "") + "/\(name)"
  var environment = environment
  for name in ["PATH", "HOME"] {
    if let value = getenv(name) { environment.append("\(name)=\(String(cString: value))") }
  }
  let pipe = try Spawn.pipe()
  let process = try Spawn.process(program, [program] + words, environment: environment, output: pipe.writing)
  close(pipe.writing)
  let lines = String(decoding: Spawn.readAll(pipe.reading), as: UTF8.self).split(separator: "\n").map(String.init)
  close(pipe.reading)
  let status = Spawn.end(process)
  guard status == 0 else { throw FactsError(description: "\(words): status \(status ?? -1): \(lines.suffix(3))") }
  for line in lines
  where ["trial=", "report=", "limitations=", "unavailable="].contains(where: line.hasPrefix) && line != "unavailable=0"
  {
    figures.note(line)
  }
  return lines
}

func factNumber(_ name: String, _ facts: [String]) throws -> Double {
  guard
    let value = facts.lazy.compactMap({ $0.hasPrefix(name + "=") ? Double($0.dropFirst(name.count + 1)) : nil }).last
  else { throw FactsError(description: "no \(name) in \(facts.suffix(5))") }
  return value
}

private struct FactsError: Error, CustomStringConvertible { var description: String }

/// The reason why a benchmark cannot measure.
struct BenchError: Error, CustomStringConvertible {
  var description: String
}
