package import ChaparCore
package import ChaparQueue

/// The plain evaluation in memory with which stores are compared: no index, each device is looked at.
extension MemoryDeviceStore: AudienceStore {
    package func lastDeviceNumber() async throws(StoreError) -> Int64 { try use { Int64($0.last) } }

    package func plan(_ audience: Audience) async throws(StoreError) -> AudiencePlan {
        try use { contents in
            let counts = contents.counts(in: audience.app).map { ($0.label, $0.devices) }
            return AudiencePlan(audience, counts: Dictionary(counts) { first, _ in first })
        }
    }

    package func window(
        _ plan: AudiencePlan,
        after start: Int64,
        through end: Int64,
        limit: Int
    ) async throws(StoreError) -> AudienceWindow {
        try use { contents in
            let places = contents.ordered.filter { start < $0.place && $0.place <= end }.prefix(limit)
            var candidates = AudienceCandidates()
            candidates.subjects = places.map { contents.subject($0.device, at: $0.place) }
            candidates.read = places.count
            candidates.last = places.last.map { Int64($0.place) } ?? 0
            return plan.evaluate(candidates, limit: limit, through: end)
        }
    }

    package func subjects(_ ids: [String]) async throws(StoreError) -> [String: AudienceSubject] {
        try use { contents in
            ids.reduce(into: [:]) { found, id in
                guard let place = contents.places[id], let device = contents.devices[place] else { return }
                found[id] = contents.subject(device, at: place)
            }
        }
    }

    package func labels(ofUser user: String) async throws(StoreError) -> [String] {
        try use { $0.userLabels[ExactText(user)]?.sorted() ?? [] }
    }

    package func relabel(_ changes: [LabelChange]) async throws(StoreError) -> Set<LabelChange.Subject> {
        try use { contents in
            var known: Set<LabelChange.Subject> = []
            for change in changes {
                switch change.subject {
                case .user(let user):
                    contents.userLabels[ExactText(user), default: []].subtract(change.removed)
                    contents.userLabels[ExactText(user), default: []].formUnion(change.added)
                case .device(let id):
                    guard let place = contents.places[id] else { continue }
                    contents.ownLabels[place, default: []].subtract(change.removed)
                    contents.ownLabels[place, default: []].formUnion(change.added)
                }
                known.insert(change.subject)
            }
            return known
        }
    }

    package func members(of label: String, after id: String?, limit: Int) async throws(StoreError) -> [String] {
        try use { contents in
            let all =
                AudienceLabel.isOfDevice(label)
                ? contents.ordered.filter { contents.ownLabels[$0.place]?.contains(label) ?? false }.map(\.device.id)
                : contents.userLabels.filter { $0.value.contains(label) }.map(\.key.text)
            return Array(all.filter { $0 > id ?? "" }.sorted().prefix(limit))
        }
    }

    package func labelCounts(
        in app: AppName,
        after label: String?,
        limit: Int
    ) async throws(StoreError) -> [LabelCount] {
        try use { contents in
            Array(contents.counts(in: app).filter { $0.label > label ?? "" }.prefix(limit))
        }
    }
}

extension MemoryDeviceStore.Contents {
    fileprivate func labels(_ device: Device, at place: Int) -> Set<String> {
        let inherited = device.user.flatMap { userLabels[ExactText($0)] } ?? []
        return inherited.union(ownLabels[place] ?? [])
    }

    fileprivate func subject(_ device: Device, at place: Int) -> AudienceSubject {
        AudienceSubject(number: Int64(place), device: device, labels: labels(device, at: place).sorted())
    }

    fileprivate func counts(in app: AppName) -> [LabelCount] {
        var counts: [String: Int64] = [:]
        for (place, device) in ordered where device.app == app {
            let all = labels(device, at: place).filter(AudienceLabel.isCounted) + device.tags.map(AudienceLabel.tag)
            for label in all { counts[label, default: 0] += 1 }
        }
        return counts.sorted { $0.key < $1.key }.map { LabelCount($0.key, devices: $0.value) }
    }
}
