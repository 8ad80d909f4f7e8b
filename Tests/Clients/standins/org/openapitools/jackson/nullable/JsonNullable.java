package org.openapitools.jackson.nullable;

/** Stands in for jackson-databind-nullable, which Debian does not have: the generated models compare with it. */
public interface JsonNullable<T> {
    boolean isPresent();

    T get();
}
