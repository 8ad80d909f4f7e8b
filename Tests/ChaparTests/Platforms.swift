import Foundation
import ChaparCore
import ChaparModules
import Testing

@testable import ChaparCommands
@testable import chapar

/// The platforms of the program under test, by their kinds, and its modules, by their sections.
///
/// A plugin can be deleted from the tree: its folder, its targets and its line of registration. What needs it here is
/// then left out, and nothing else.
enum Platforms {
    /// The kinds of the program's backends, and the keys of its modules.
    static let registered: Set<String> = {
        var kinds = Set(Plugins.program.backends.map(\.kind.rawValue) + Plugins.program.modules.map(\.key))
        // IDPush sends through OneSignal: without it nothing of what is said of it can be tried.
        if !kinds.contains("onesignal") { kinds.remove("idpush") }
        return kinds
    }()

    /// The kinds and modules of the README and docs that the program lacks: none, unless a plugin was deleted.
    static let missing = Set([
        "apns", "fcm", "hms", "rustore", "onesignal", "idpush", "altcraft", "chabok", "http", "webpush",
        "release_notes", "gorush",
    ]).subtracting(registered)
}

extension Trait where Self == ConditionTrait {
    /// The test is about these platforms or modules, and goes with them.
    static func about(_ words: String...) -> Self {
        .enabled(if: Platforms.registered.isSuperset(of: words), "The program lacks one of \(words).")
    }
}

@Suite("The platforms of the program", .timeLimit(.minutes(1)))
struct PlatformsTests {
    @Test(
        "The names under which people look for a platform suggest its kind",
        arguments: [
            ("firebase", "fcm"), ("GCM", "fcm"), ("apple", "apns"), ("ios", "apns"), ("huawei", "hms"),
            ("vkpns", "rustore"),
            ("apn", "apns"), ("one-signal", "onesignal"),
        ]
    )
    func otherNames(word: String, kind: String) throws {
        guard Platforms.registered.contains(kind) else { return }
        #expect(try BackendRegistry(Plugins.program.backends).nearestKind(to: word) == kind)
    }

    @Test("Every plugin of the tree is registered")
    func registered() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..").standardizedFileURL
        let list = try String(contentsOf: root.appending(path: "Sources/chapar/Plugins.swift"), encoding: .utf8)
        let folders = try FileManager.default.contentsOfDirectory(
            at: root.appending(path: "Plugins"),
            includingPropertiesForKeys: [.isDirectoryKey]
        ).filter { $0.hasDirectoryPath }
        #expect(folders.count > 1)
        for folder in folders {
            let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)?.allObjects
            // A simulator stays when its plugin is deleted.
            let sources = (files as? [URL] ?? []).filter {
                $0.pathExtension == "swift" && !$0.path.contains("/Simulator/")
            }
            if sources.isEmpty { continue }
            let text = try sources.map { try String(contentsOf: $0, encoding: .utf8) }.joined()
            let constants = text.matches(of: /static let (\w+) = (?:Backend|Module)Factory\(/).map(\.output.1)
            let functions = text.matches(of: /static func (\w+)\(.*\) -> BackendFactory/).map(\.output.1)
            let factories = constants + functions
            #expect(!factories.isEmpty, "\(folder.lastPathComponent) exports no factory")
            for factory in factories { #expect(list.contains(".\(factory)"), "\(factory) is not registered") }
        }
    }
}
