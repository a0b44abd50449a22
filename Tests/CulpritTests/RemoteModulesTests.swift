import Testing

@testable import Culprit

/// Which modules are on file systems that somebody else answers for, as the kernel tells it.
@Suite struct RemoteModulesTests {
  private let mounts = """
    21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
    40 21 0:53 / /mnt/far rw,relatime shared:9 - fuse.sshfs host:/ rw
    41 21 0:54 / /mnt/near rw - tmpfs tmpfs rw
    42 21 0:171 /export /srv rw,relatime master:3 - nfs4 server:/export rw

    """

  private func modules(_ maps: String, executable: String = "/usr/bin/service") -> [RemoteModules.RemoteModule] {
    RemoteModules.modules(maps: maps, mounts: mounts, executable: executable).values.sorted { $0.start < $1.start }
  }

  private let own = "1000-2000 r-xp 00000000 fe:00 12    /usr/bin/service\n"

  @Test func oneOnFUSEIsFoundWithItsTables() {
    let maps =
      own + """
        7f00a000-7f00b000 r--p 00000000 00:35 99   /mnt/far/plug in.so
        7f00b000-7f00d000 r-xp 00001000 00:35 99   /mnt/far/plug in.so
        7f00d000-7f00e000 r--p 00003000 00:35 99   /mnt/far/plug in.so
        7f00e000-7f00f000 rw-p 00004000 00:35 99   /mnt/far/plug in.so
        7f010000-7f011000 r-xp 00000000 00:36 7    /mnt/near/other.so
        7f020000-7f021000 rw-p 00000000 00:00 0    [heap]

        """
    let expected = RemoteModules.RemoteModule(
      path: "/mnt/far/plug in.so",
      fileSystem: "fuse.sshfs",
      start: 0x7f00_a000,
      end: 0x7f00_f000,
      tables: [0x7f00_a000..<0x7f00_b000, 0x7f00_d000..<0x7f00_e000]
    )
    #expect(modules(maps) == [expected])
  }

  /// Device numbers are hexadecimal in one file and decimal in the other.
  @Test func oneOnNFSIsFound() {
    #expect(modules(own + "9000-a000 r-xp 00000000 00:ab 5   /srv/a.so\n").map(\.path) == ["/srv/a.so"])
  }

  /// Where that file system does not answer, the service does not run either.
  @Test func thoseBesideTheExecutableAreNotMeant() {
    let maps = "1000-2000 r-xp 00000000 00:35 1    /mnt/far/service\n9000-a000 r-xp 00000000 00:35 5   /mnt/far/a.so\n"
    #expect(modules(maps, executable: "/mnt/far/service").isEmpty)
    #expect(modules(maps).count == 2)
  }

  /// The same file, loaded elsewhere, is another one to the thread that copies.
  @Test func oneThatIsLoadedAnewElsewhereHasAnotherKey() {
    func key(_ start: String) -> String? {
      RemoteModules.modules(
        maps: own + "\(start)-f000 r-xp 00000000 00:35 5   /mnt/far/a.so\n",
        mounts: mounts,
        executable: "/usr/bin/service"
      )
      .keys.first
    }
    #expect(key("9000") != nil)
    #expect(key("9000") != key("a000"))
  }

  @Test(arguments: ["fuse", "fuseblk", "fuse.sshfs", "virtiofs", "nfs", "nfs4", "cifs", "9p", "ceph"])
  func theseAreRemote(type: String) { #expect(RemoteModules.isRemote(type[...])) }

  @Test(arguments: ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "squashfs", "zfs"])
  func theseAreNot(type: String) { #expect(!RemoteModules.isRemote(type[...])) }
}
