import Foundation
import Glibc

/// A control group for this process, in version 1 or 2.
struct ControlGroup {
  private let directory: String
  /// The process's previous group.
  private let former: String

  /// Creates a group of `controller` with `settings`, or with `unified` in the unified hierarchy.
  init(_ controller: String, settings: [(String, String)], orUnified unified: [(String, String)]) throws {
    let name = "causes-\(getpid())"
    let own = (try? String(contentsOfFile: "/proc/self/cgroup", encoding: .utf8)) ?? ""
    for (root, key, files) in [("/sys/fs/cgroup/\(controller)", controller, settings), ("/sys/fs/cgroup", "", unified)]
    {
      let paths = own.split(separator: "\n").map { $0.split(separator: ":", omittingEmptySubsequences: false) }
      guard let path = paths.first(where: { $0.count == 3 && $0[1] == key })?[2],
        mkdir("\(root)/\(name)", 0o755) == 0
      else { continue }
      if files.allSatisfy({ Self.write($0.1, to: "\(root)/\(name)/\($0.0)") }) {
        directory = "\(root)/\(name)"
        former = "\(root)\(path)"
        return
      }
      rmdir("\(root)/\(name)")
    }
    throw Unavailable("this process cannot create a control group of \(controller)")
  }

  func enter() throws {
    guard Self.write("\(getpid())", to: "\(directory)/cgroup.procs") else {
      rmdir(directory)
      throw Unavailable("this process cannot enter \(directory)")
    }
  }

  /// Moves the process back and removes the group. The kernel can be slow to notice that the group is empty.
  func leave() {
    _ = Self.write("\(getpid())", to: "\(former)/cgroup.procs")
    for _ in 0..<200 where rmdir(directory) != 0 && errno == EBUSY { usleep(10_000) }
  }

  private static func write(_ text: String, to path: String) -> Bool {
    let descriptor = open(path, O_WRONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    return Glibc.write(descriptor, text, text.utf8.count) == text.utf8.count
  }
}
