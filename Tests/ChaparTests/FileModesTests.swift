import Foundation
import Testing

@testable import ChaparCommands

@Suite("Who else may use a file")
struct FileModesTests {
    @Test(
        "A group that may read counts as others, but for what systemd gives a service, where its bits are those of an access list",
        arguments: [(0o400, 0, 0), (0o440, 0o040, 0), (0o460, 0o060, 0o020), (0o444, 0o044, 0o004)]
    )
    func credentials(mode: Int, elsewhere: UInt32, asCredential: UInt32) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-modes-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appending(path: "keys_AuthKey.p8").path
        #expect(FileManager.default.createFile(atPath: file, contents: nil, attributes: [.posixPermissions: mode]))
        #expect(FileModes.openness(of: file, beside: "/nothing") == elsewhere)
        #expect(FileModes.openness(of: file, beside: "/nothing", credentials: folder.path + "/") == asCredential)
    }
}
