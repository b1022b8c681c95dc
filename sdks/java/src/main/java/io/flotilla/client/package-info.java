/**
 * A client of the Flotilla message queue, over gRPC. Begin with {@link io.flotilla.client.Client}.
 *
 * <p>Names, defaults and error codes are those of the Python client, in camel case.
 */
package io.flotilla.client;
