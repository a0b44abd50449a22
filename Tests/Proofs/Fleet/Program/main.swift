import CulpritOptions
import CulpritStallRecord
import Glibc

// fleet-stalls: writes the saved stalls of a made-up fleet.

private let table = OptionTable(
  usage: ["fleet-stalls [OPTION]... DIRECTORY"],
  summary: "Writes the .stall files of many hosts: DIRECTORY/web-17/culprit-….stall.",
  options: [
    CommandOption("hosts", argument: "COUNT", help: "number of hosts; default: 1000"),
    CommandOption("stalls", argument: "COUNT", help: "number of stalls of each host; default: 10"),
    CommandOption("seed", argument: "NUMBER", help: "seed of all random choices; default: 1"),
    CommandOption("plain", help: "no names that need escaping"),
  ],
  epilogue: """
    Example:
      $ fleet-stalls --hosts=1000 /tmp/fleet && culprit top /tmp/fleet/*
    """
)

private let output = CommandOutput(command: "fleet-stalls")

private func write(_ bytes: [UInt8], to path: String) throws(UsageError) {
  guard let file = fopen(path, "w") else { throw UsageError("\(path): \(String(cString: strerror(errno)))") }
  let written = fwrite(bytes, 1, bytes.count, file)
  guard fclose(file) == 0, written == bytes.count else { throw UsageError("cannot write \(path)") }
}

do {
  let parsed = try table.parse(CommandLine.arguments.dropFirst())
  if parsed.has("help") {
    output.print(table.help())
    exit(0)
  }
  guard let directory = parsed.operands.first, parsed.operands.count == 1 else {
    throw UsageError("fleet-stalls takes one directory, not \(parsed.operands.count)")
  }
  let hosts = try parsed.number("hosts", in: 1...100_000) ?? 1000
  let stalls = try parsed.number("stalls", in: 1...100_000) ?? 10
  let fleet = Fleet(seed: UInt64(try parsed.number("seed", in: 0 ... .max) ?? 1), isPlain: parsed.has("plain"))
  mkdir(directory, 0o755)
  for host in 0..<hosts {
    mkdir("\(directory)/web-\(host)", 0o755)
    for number in 0..<stalls {
      let (recording, name) = fleet.stall(number, ofHost: host)
      try write(StallFileWriter.file(of: recording), to: "\(directory)/web-\(host)/\(name)")
    }
  }
  output.print("\(hosts * stalls) stalls of \(hosts) hosts\n")
} catch let error as UsageError {
  output.usage(error)
}
