import FaultyDisks
import Foundation
import TestSupport
import Testing

/// A root directory with only the libraries that the service is linked with, like a slim image:
/// no libunwind, no shell, no symbols of the system's libraries.
@Suite(.ownThread, .enabled(if: FaultyDisk.obstacle == nil, "needs root, loop devices and mkfs.ext4"))
struct MinimalRootTests {
  private func libraries(of program: String) throws -> [String] {
    let linked = try ChildProcess("/usr/bin/ldd", [program], keepsErrors: true)
    try #require(linked.status == 0, "\(linked)")
    return linked.output.split { $0 == "\n" || $0 == "\t" }
      .compactMap { line in line.split(separator: " ").first { $0.hasPrefix("/") }.map(String.init) }
  }

  private func fill(_ root: URL, with program: String) throws {
    let files = FileManager.default
    let libraries = try libraries(of: program)
    try #require(libraries.contains { $0.contains("libz.so") } && !libraries.contains { $0.contains("libunwind") })
    for library in libraries {
      let place = root.appending(path: library)
      try files.createDirectory(at: place.deletingLastPathComponent(), withIntermediateDirectories: true)
      try files.copyItem(at: URL(fileURLWithPath: library).resolvingSymlinksInPath(), to: place)
    }
    try files.createDirectory(at: root.appending(path: "proc"), withIntermediateDirectories: true)
    try ChildProcess.copyProgram(program, to: root.appending(path: "service").path)
  }

  @Test func watchesServiceInSlimImage() throws {
    let root = FileManager.default.temporaryDirectory.appending(path: "culprit-root-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: root) }
    try fill(root, with: ChildProcess.built("policy-process"))
    let script = "mount -t proc proc \(root.path)/proc && exec chroot \(root.path) /service stall wait"
    let words = ["--mount", "--propagation=private", "sh", "-c", script]
    let service = try ChildProcess("/usr/bin/unshare", words, keepsErrors: true)
    #expect(service.hasExited && service.status == 0, "\(service)")
    #expect(service.fact("report") == "computeInTheWay(_:)", "\(service)")
    #expect(service.errors == "", "\(service)")
  }

  @Test func readmeListsRequiredPackages() throws {
    // Matches by name, because the package manager lists some files below the link /lib.
    let names = try libraries(of: ChildProcess.built("policy-process")).filter { !$0.contains("/swift/") }
      .map { "*/" + URL(fileURLWithPath: $0).resolvingSymlinksInPath().lastPathComponent }
    let owners = try ChildProcess("/usr/bin/dpkg", ["--search"] + names, keepsErrors: true)
    let essential: Set<Substring> = ["libc6", "libgcc-s1"]
    // Libraries for cross compilers have the same file names.
    let packages = Set(owners.output.split(separator: "\n").compactMap { $0.split(separator: ":").first })
      .filter { !$0.hasSuffix("-cross") }
    let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../../README.md")
    let readme = try String(contentsOf: page, encoding: .utf8)
    let command = try #require(readme.firstMatch(of: /apt-get install (.*?) *# where it runs/))
    let named = Set(command.1.split(separator: " "))
    #expect(!packages.isEmpty && packages.subtracting(essential).isSubset(of: named), "\(packages), \(named)")
    #expect(named.subtracting(packages) == [], "\(named)")
  }
}
