import CulpritOptions
import CulpritReports
import CulpritStallRecord

let infoTable = OptionTable(
  usage: ["culprit info [OPTION]... [FILE|DIRECTORY]..."],
  summary:
    "Describes the FILEs, or standard input if there are none or for \"-\". For a DIRECTORY, lists the runs of the service and their endings.",
  options: [
    CommandOption("modules", letter: "m", help: "list the modules with their build-ids and mappings"), Progress.option,
  ],
  operands: .file(ending: ".stall"),
  examples: """
    $ culprit info stall.stall
    stall.stall: .stall format 1.0, 105 records
      process   4242 /usr/bin/shop (x86_64), watched since 2026-11-20T10:23:40.000Z by culprit 0.1.0
      modules   21, 20 of them with a build-id
      stacks    24 distinct
      names     for 24 addresses
      stall 1   event loop "http", thread 4242 "shop", 5.01 s, limit 4.50 s, samples: 25, other threads: 3, ended
    $ culprit info /var/lib/shop/stalls
    culprit-20261120T102340.000Z-4242.told: process 4242 /usr/bin/shop, since 2026-11-20T10:23:40.000Z
      ended     fatal hang: ended while work was stuck; reported
      stall     culprit-20261120T102351.204Z-4242-1.stall, 5.01 s, no end recorded
    """,
  exitStatus: "0 success; 1 a file was unreadable or incomplete; 2 wrong usage"
)

func runInfo(_ parsed: OptionTable.Arguments) throws -> Bool {
  try requireInput(parsed.operands)
  let directories = parsed.operands.filter(isDirectory)
  if !parsed.operands.isEmpty, directories.count == parsed.operands.count {
    try parsed.refuse(["modules"], "requires FILEs: a DIRECTORY lists runs")
  }
  let allListed = directories.map { printRuns($0) }.allSatisfy { $0 }
  let files = parsed.operands.filter { !directories.contains($0) }
  guard directories.isEmpty || !files.isEmpty else { return allListed }
  // Samples are only counted, so one sample per stall is kept in memory.
  return forEachStallFile(files, StallFile.Extent(samples: 1)) { name, file in
    output.print(describe(file, name, listingModules: parsed.has("modules")))
  } && allListed
}

private func describe(_ file: StallFile, _ name: String, listingModules: Bool) -> String {
  let recording = file.recording
  var lines = ["\(name): .stall format \(file.version.major).\(file.version.minor), \(file.recordCount) records"]
  if let process = recording.process {
    lines.append(
      "  process   \(process.id) \(process.executable) (\(process.architecture)), watched since \(process.watchedSince) "
        + "by culprit \(process.observerVersion)"
    )
  } else {
    lines.append("  process   not recorded")
  }
  let named = recording.modules.filter { !$0.buildID.isEmpty }.count
  lines.append("  modules   \(recording.modules.count), \(named) of them with a build-id")
  if listingModules {
    for module in recording.modules {
      lines.append("    \(module.path)  \(module.buildID.isEmpty ? "no build-id" : hexadecimal(module.buildID))")
      for mapping in module.mappings {
        lines.append("      \(mapping.start)-\(mapping.end) from byte \(mapping.fileOffset)")
      }
    }
  }
  lines.append("  stacks    \(recording.stacks.count) distinct")
  if !recording.names.isEmpty { lines.append("  names     for \(recording.names.count) addresses") }
  for stall in recording.stalls {
    lines.append(
      "  stall \(stall.id)   \(stall.source.kind.description) \"\(stall.source.name)\", thread \(stall.thread.id) "
        + "\"\(stall.thread.name)\", \(readable(stall.duration)), limit \(readable(stall.threshold)), samples: \(stall.samples.count + stall.leftOutSamples), "
        + (stall.others.map { "other threads: \($0.threads.count), " } ?? "")
        + (stall.hasEnded ? "ended" : "no end recorded")
    )
  }
  return lines.map { printable($0) }.joined(separator: "\n") + "\n"
}
