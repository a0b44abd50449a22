import Judges
import ChildProcesses
import Glibc
import Programs

/// Returns the facts that the program `name` prints, one a line. `build` names the program's build; the default is the
/// build of this program. Lines about failures are noted in `figures`.
func programFacts(
  _ name: String,
  _ words: [String],
  _ figures: Figures,
  environment: [String] = [],
  build: String? = nil
) throws -> [String] {
  let program = programDirectory + (build.map { "/../\($0)" } ?? "") + "/\(name)"
  var environment = environment
  for name in ["PATH", "HOME"] {
    if let value = getenv(name) { environment.append("\(name)=\(String(cString: value))") }
  }
  let (text, status) = try Spawn.output(of: program, words, environment: environment)
  let lines = text.split(separator: "\n").map(String.init)
  guard status == 0 else { throw ProofError("\(words): status \(status): \(lines.suffix(3))") }
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
  else { throw ProofError("no \(name) in \(facts.suffix(5))") }
  return value
}
