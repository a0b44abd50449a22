import Testing

@testable import Culprit

@Suite struct RemoteMountsTests {
  private let mountinfo = """
    21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
    40 21 0:53 / /mnt/far rw,relatime shared:9 - fuse.sshfs host:/ rw
    41 40 0:54 / /mnt/far/near rw - tmpfs tmpfs rw
    42 21 0:171 /export /srv rw,relatime master:3 - nfs4 server:/export rw
    43 21 0:55 / /mnt/two\\040words rw - 9p host rw
    44 42 0:56 / /srv rw - xfs /dev/vdb rw
    45 21 0:171 /export /home rw,relatime master:3 - nfs4 server:/export rw

    """

  private func reasons(_ path: String, executable: String = "/usr/bin/service") -> [String] {
    Array(RemoteMounts(mountinfo: mountinfo, executable: executable).reasons(for: [path]).values)
  }

  private func reason(_ type: String) -> [String] { ["it is on a \(type) file system, which may not answer"] }

  @Test func reportsFileSystemType() {
    #expect(reasons("/mnt/far/plug in.so") == reason("fuse.sshfs"))
    #expect(reasons("/home/a.so") == reason("nfs4"))
    #expect(reasons("/mnt/two words/a.so") == reason("9p"))
  }

  @Test func acceptsLocalFiles() {
    for path in ["/usr/lib/libc.so.6", "/mnt/farther/a.so", "/mnt/far/near/a.so", "[vdso]", ""] {
      #expect(reasons(path).isEmpty, "\(path)")
    }
  }

  @Test func usesLastMountAtPath() { #expect(reasons("/srv/a.so").isEmpty) }

  @Test func acceptsMountOfExecutable() {
    #expect(reasons("/mnt/far/a.so", executable: "/mnt/far/service").isEmpty)
    #expect(reasons("/home/a.so", executable: "/mnt/far/service") == reason("nfs4"))
  }

  @Test func acceptsUnreadableMountTable() {
    #expect(RemoteMounts(mountinfo: "", executable: "").reasons(for: ["/usr/lib/a.so"]).isEmpty)
    #expect(RemoteMounts(mountinfo: "1 2 3\n\n4 5 6 7 8 9 -\n", executable: "/a").reasons(for: ["/b"]).isEmpty)
  }

  @Test(arguments: ["fuse", "fuseblk", "fuse.sshfs", "virtiofs", "nfs", "nfs4", "cifs", "9p", "ceph"])
  func recognizesRemoteTypes(type: String) { #expect(RemoteMounts.isRemote(type)) }

  @Test(arguments: ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "squashfs", "zfs"])
  func recognizesLocalTypes(type: String) { #expect(!RemoteMounts.isRemote(type)) }
}
