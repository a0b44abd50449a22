import CulpritOptions
import Glibc

// culprit: what saved stalls say, and whom they blame.

Interruption.listen()
// The end of a pipe that the reader has closed (culprit report … | head) is no reason to die with a signal.
signal(SIGPIPE, SIG_IGN)
var called: String?
do {
  let arguments = CommandLine.arguments.dropFirst()
  if let name = arguments.first, !name.hasPrefix("-") {
    // Who gives a file and no command wants to see what is in it.
    if !family.members.contains(where: { $0.name == name }), access(name, F_OK) == 0 {
      throw UsageError("a command is missing before \"\(name)\"; did you mean culprit report \(name)?")
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
    throw UsageError("a command is missing; there are \(family.members.map(\.name).joined(separator: ", "))")
  }
} catch let error as UsageError {
  output.usage(error, of: called)
} catch {
  output.error("\(error)")
  exit(1)
}
