internal import ChaparCore

/// The section of a sandbox's configuration by which its gateway answers gorush's requests.
enum SandboxGorush {
    /// The key of the section.
    static let key = "gorush"

    /// Returns the section for the platforms that there are; empty without any of gorush's.
    static func section(_ kinds: Set<BackendKind>) -> String {
        let platforms: [(kind: BackendKind, value: String)] = [
            ("apns", "ios: { production: ios }"), ("fcm", "android: android"), ("hms", "huawei: huawei"),
        ]
        let parts = platforms.filter { kinds.contains($0.kind) }.map(\.value)
        return parts.isEmpty ? "" : "\(key): { \(parts.joined(separator: ", ")) }\n"
    }
}
