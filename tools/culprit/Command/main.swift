import CulpritOptions
import Glibc

Interruption.listen()
// Writing to a closed pipe must return an error.
signal(SIGPIPE, SIG_IGN)
var called: String?
do {
  let arguments = CommandLine.arguments.dropFirst()
  if let name = arguments.first, !name.hasPrefix("-") {
    // A file name as the command suggests a forgotten "report".
    if !family.members.contains(where: { $0.name == name }), access(name, F_OK) == 0 {
      throw UsageError("missing command before \"\(name)\"; did you mean culprit report \(name)?")
    }
    let member = try family.member(name)
    called = name
    end(try run(member, Array(arguments.dropFirst())) ? 0 : 1)
  }
  let parsed = try family.table.parse(arguments)
  if parsed.has("help") {
    output.print(helpOfFamily())
  } else if parsed.has("version") {
    output.print("culprit \(toolVersion)\n")
  } else {
    throw UsageError("missing command; available: \(family.members.map(\.name).joined(separator: ", "))")
  }
} catch let error as UsageError {
  output.usage(error, of: called)
} catch {
  output.error("\(error)")
  exit(1)
}
