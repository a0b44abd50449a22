import BlackBox
import Glibc
import Reports
import StallRecord

/// Whether `path` is a directory.
func isDirectory(_ path: String) -> Bool {
  var information = stat()
  return stat(path, &information) == 0 && information.st_mode & S_IFMT == S_IFDIR
}

/// `paths` with the `.stall` files in it, the newest first, in place of each directory.
func expanded(_ paths: [String]) throws -> [String] {
  var found: [String] = []
  for path in paths {
    if isDirectory(path) {
      found += try BlackBoxDirectory(path: path).names([".stall"]).reversed().map { "\(path)/\($0)" }
    } else {
      found.append(path)
    }
  }
  guard !found.isEmpty || paths.isEmpty else {
    throw InputError(description: "no stall has been saved in \(paths.joined(separator: ", "))")
  }
  return found
}

/// Prints the runs that left something in the directory at `path`, the newest first. Returns whether it could be read.
func printRuns(_ path: String) -> Bool {
  do {
    let box = BlackBoxDirectory(path: path)
    for run in try box.runs().reversed() {
      var lines = [
        "\(run.name): process \(run.record.identity.process) \(run.record.executable), since \(run.record.since)"
      ]
      let verdict = run.verdict(boot: box.boot).map { "ended     \($0)" } ?? "running"
      lines.append("  \(verdict)" + (run.record.told != nil ? "; told" : ""))
      for saved in run.stalls {
        for stall in saved.file.recording.stalls {
          let end = stall.hasEnded ? "ended" : run.isRunning ? "going on" : "its end was not recorded"
          lines.append("  stall     \(saved.name), \(readable(stall.duration)), \(end)")
        }
      }
      output.print(lines.map { printable($0) }.joined(separator: "\n") + "\n")
    }
    return true
  } catch {
    output.error(printable("\(error)"))
    return false
  }
}
