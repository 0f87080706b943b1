/*-------------------------------------------------------------------------
 *
 * device_file.h
 *		Reads GPUs from an inventory file.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_DEVICE_FILE_H
#define GPUCREDIT_AGENT_DEVICE_FILE_H

extern void DeviceFileRead(const char *path);

#endif							/* GPUCREDIT_AGENT_DEVICE_FILE_H */
