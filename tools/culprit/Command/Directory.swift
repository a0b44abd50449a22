import CulpritBlackBox
import CulpritOptions
import CulpritReports
import CulpritStallRecord
import Glibc

func isDirectory(_ path: String) -> Bool {
  var information = stat()
  return stat(path, &information) == 0 && information.st_mode & S_IFMT == S_IFDIR
}

/// Returns the directories of `--debug-dir`.
///
/// - Throws: ``InputError`` if a directory is not accessible.
func debugDirectories(_ parsed: OptionTable.Arguments) throws(InputError) -> [String] {
  let directories = parsed.values("debug-dir")
  for directory in directories {
    let error = directory.isEmpty ? ENOENT : access("\(directory)/.", F_OK) == 0 ? 0 : errno
    guard error == 0 else {
      throw InputError("--debug-dir=\(directory)", error)
    }
  }
  return directories
}

/// Returns the names of saved stalls, including renamed files.
func stallNames(in path: String) throws(BlackBoxError) -> [String] {
  try BlackBoxDirectory(path: path).names([".stall"], beginningWith: "")
}

/// Throws a ``UsageError`` if the command would wait for terminal input without a prompt.
func requireInput(_ operands: [String]) throws(UsageError) {
  guard operands.isEmpty, isatty(STDIN_FILENO) == 1 else { return }
  throw UsageError("missing FILE or DIRECTORY, and standard input is a terminal")
}

/// The files named by operands. The `.stall` files of all directories, newest first, replace the first directory.
struct Expansion {
  var paths: [String] = []
  /// Paths found in a directory.
  var found: Set<String> = []
  /// All paths. Paths found in directories are oldest first.
  var inOrderOfTime: [String] {
    let oldestFirst = paths.filter(found.contains).reversed()
    return oldestFirst + paths.filter { !found.contains($0) }
  }
  /// Whether all directories could be read. The initializer prints errors.
  var isWhole = true

  init(_ operands: [String]) throws {
    try requireInput(operands)
    // Names given by a watchdog start with the time of the stall. Renamed files come after these names.
    var files: [(name: String, path: String)] = []
    var place: Int?
    for operand in operands {
      guard isDirectory(operand) else {
        paths.append(operand)
        continue
      }
      place = place ?? paths.count
      do {
        files += try stallNames(in: operand).map { ($0, "\(operand)/\($0)") }
      } catch {
        output.error("\(error)")
        isWhole = false
      }
    }
    files.sort { one, other in
      let (isOne, isOther) = (one.name.hasPrefix("culprit-"), other.name.hasPrefix("culprit-"))
      return isOne != isOther ? isOne : (other.name, one.path) < (one.name, other.path)
    }
    found = Set(files.map(\.path))
    if let place { paths.insert(contentsOf: files.map(\.path), at: place) }
    guard !paths.isEmpty || operands.isEmpty || !isWhole else {
      throw InputError(description: "no saved stalls in \(operands.joined(separator: ", "))")
    }
  }
}

/// Returns whether everything could be read.
func printRuns(_ path: String) -> Bool {
  do {
    let inventory = try Inventory(path: path)
    for run in inventory.runs.reversed() {
      var lines = [
        "\(run.name): process \(run.record.identity.process) \(run.record.executable), since \(run.record.since)"
      ]
      let verdict = run.verdict.map { "ended     \($0)" } ?? "running"
      lines.append("  \(verdict)" + (run.record.told != nil ? "; reported" : ""))
      lines += run.stalls.flatMap { describe($0, isRunning: run.isRunning) }
      output.print(lines.map { printable($0) }.joined(separator: "\n") + "\n")
    }
    if !inventory.otherStalls.isEmpty {
      let lines = inventory.otherStalls.reversed().flatMap { describe($0, isRunning: false) }
      output.print((["of runs whose files are gone:"] + lines).map { printable($0) }.joined(separator: "\n") + "\n")
    }
    for problem in inventory.problems { output.error(problem) }
    if inventory.runs.isEmpty, inventory.otherStalls.isEmpty, inventory.problems.isEmpty {
      throw InputError(description: "no records of runs in \(path)")
    }
    return inventory.problems.isEmpty
  } catch {
    output.error("\(error)")
    return false
  }
}

private func describe(_ file: Inventory.Stalls, isRunning: Bool) -> [String] {
  file.stalls.map { stall in
    let end = stall.hasEnded ? "ended" : isRunning ? "going on" : "no end recorded"
    return "  stall     \(file.name), \(readable(stall.duration)), \(end)"
  }
}
